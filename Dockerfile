# docker build -t feda3i . && docker run --rm feda3i feda3i demo
# `feda3i deploy init` writes the compose files of a consortium's server and sites.
FROM python:3.11-slim
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[flower]' && useradd --create-home feda3i
USER feda3i
WORKDIR /home/feda3i
ENV OMP_WAIT_POLICY=PASSIVE
CMD ["feda3i", "--help"]
