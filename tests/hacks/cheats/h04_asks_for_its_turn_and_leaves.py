"""In the name of the harness it asks for its turn on the device, and is gone when the turn comes.

id: G12 G8
task: gelu
expect: crash/early_exit
probe: trials
where: cpu
"""

import gc
import os
import socket

THINGS = gc.get_objects()
CHANNELS = [thing for thing in THINGS if type(thing).__name__ == "Channel"]
RECORDERS = [thing for thing in THINGS if type(thing).__name__ == "Recorder"]
del THINGS


class ModelNew(nn.Module):
    def forward(self, x):
        if CHANNELS and RECORDERS:
            from kernelgym.sandbox.frames import Kind

            for kind in (Kind.COMPILING, Kind.COMPILED):
                CHANNELS[0].send(kind, RECORDERS[0].call)
            CHANNELS[0]._sock.shutdown(socket.SHUT_RD)
            CHANNELS[0]._sock.close()
            os._exit(0)
        return torch.nn.functional.gelu(x)
