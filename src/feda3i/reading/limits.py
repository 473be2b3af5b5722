"""How large a file may be before it is refused. All limits of the package are here."""

from __future__ import annotations

# Pixels of a picture, or voxels of a volume, read from its header before anything is decoded. The
# largest picture of ISIC 2017 has 30 million; 20,000 x 20,000 has 400.
MAX_PIXELS = 80_000_000
MAX_VOXELS = 512 * 512 * 1024

# Bytes of one file, which is read whole into memory.
MAX_FILE_BYTES = 2 * 1024**3
