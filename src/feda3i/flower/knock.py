"""Hand one of Flower's commands to the warm process, and end as it ends.

``bin/flwr-clientapp`` runs this file by its path for every message (``python3 -I -S``), so it uses
nothing but the standard library and starts in some hundredths of a second. If no warm process
answers, the guard is started the ordinary way; the result is the same, some seconds later.
"""

from __future__ import annotations

import json
import os
import socket
import sys

TAKEN = b"taken"


def knock(door: str, role: str, arguments: list[str]) -> int:
    """Return the exit code of a command that the warm process behind a socket has carried out.

    Raise ``OSError`` if nobody is there to do it.
    """
    folder, name = os.path.split(door)
    os.chdir(folder or ".")  # the path of a socket may have about a hundred letters only
    request = json.dumps({"role": role, "arguments": arguments}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(name)
        # Output goes where Flower wants it: both ends are open in the process that does the work.
        socket.send_fds(line, [request], [1, 2])
        if line.recv(16) != TAKEN:  # it ended before it took the command
            raise ConnectionError("the warm process is gone")
        answer = line.recv(16)
    return int(answer) if answer else 1


def main() -> None:
    """Knock; start the guard in this process's place if nobody opens."""
    role, *arguments = sys.argv[1:]
    here = os.getcwd()
    try:
        sys.exit(knock(os.environ["FEDA3I_DOOR"], role, arguments))
    except (KeyError, OSError):
        os.chdir(here)
        command = ["python3", "-P", "-m", "feda3i.flower.guard", role, *arguments]
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
