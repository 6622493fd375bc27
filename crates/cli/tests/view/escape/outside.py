"""What an attempt could reach outside: sockets, a process with secrets in its memory, shared memory, queues, keys.

Reads one JSON object of what to make, prints one of how to reach it, and, at the end of its input, one of what was done to it.
"""

import ctypes
import json
import os
import platform
import resource
import selectors
import signal
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
IS_ARM = platform.machine() == "aarch64"
ADD_KEY, KEYCTL, MQ_OPEN, MQ_SEND, MQ_UNLINK = [(248, 217), (250, 219), (240, 180), (242, 182), (241, 181)]
heard, signals = [], 0


def syscall(numbers, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return LIBC.syscall(ctypes.c_long(numbers[IS_ARM]), *words)


def noted(_number, _frame):
    global signals
    signals += 1


def listen(family, kind, address):
    made = socket.socket(family, kind)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen(200)
    made.setblocking(False)
    return made


def hear(ready, gift):
    try:
        if ready.type == socket.SOCK_DGRAM:
            heard.append(ready.recv(200).decode(errors="replace"))
            return
        made, _ = ready.accept()
        made.settimeout(2)
        said = made.recv(200).decode(errors="replace")
        heard.append(said or "somebody")
        if ready.family == socket.AF_UNIX:
            socket.send_fds(made, [b"x"], [gift])
        made.close()
    except OSError as error:
        heard.append(f"somebody, {error}")


def main():
    wanted = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGURG, noted)
    canary = wanted["canary"].encode()
    secret = ctypes.create_string_buffer(canary)
    gift = os.open(wanted["gift"], os.O_RDONLY)
    made = {"pid": os.getpid(), "address": ctypes.addressof(secret), "descriptor": gift}
    sockets = []
    tcp = listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    every = listen(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0))
    udp = listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    sockets += [tcp, every, udp]
    made["tcp"], made["every"], made["udp"] = [one.getsockname()[1] for one in sockets]
    try:
        tcp6 = listen(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        udp6 = listen(socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0))
        sockets += [tcp6, udp6]
        made["tcp6"], made["udp6"] = tcp6.getsockname()[1], udp6.getsockname()[1]
    except OSError:
        made["tcp6"], made["udp6"] = 0, 0
    for path in wanted["stream"]:
        sockets.append(listen(socket.AF_UNIX, socket.SOCK_STREAM, path.replace("@", "\0", 1) if path[0] == "@" else path))
    for path in wanted["datagram"]:
        sockets.append(listen(socket.AF_UNIX, socket.SOCK_DGRAM, path.replace("@", "\0", 1) if path[0] == "@" else path))
    key = made["key"] = 0x57000000 + os.getpid() % 0xFFFFFF
    segment = LIBC.shmget(key, 4096, 0o1666)
    LIBC.shmat.restype = ctypes.c_void_p
    ctypes.memmove(LIBC.shmat(segment, None, 0), canary, len(canary))
    queue = LIBC.msgget(key, 0o1666)
    for _ in range(20):
        LIBC.msgsnd(queue, struct.pack("l", 1) + canary, ctypes.c_size_t(len(canary)), 0)
    semaphore = LIBC.semget(key, 1, 0o1666)
    made["queue"] = f"windlass-{os.getpid()}"
    attributes = ctypes.create_string_buffer(struct.pack("llll", 0, 9, 200, 0) + bytes(32))
    posix = syscall(MQ_OPEN, made["queue"].encode(), os.O_RDWR | os.O_CREAT, 0o666, attributes)
    for _ in range(9):
        syscall(MQ_SEND, posix, canary, len(canary), 0, None)
    made["description"] = f"windlass-{os.getpid()}"
    for ring in (-3, -4, -5):
        key_id = syscall(ADD_KEY, b"user", made["description"].encode(), canary, len(canary), ring)
        syscall((250, 219), 5, key_id, 0x3F3F3F3F, 0, 0)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    print(json.dumps(made), flush=True)
    wait(sockets, gift)
    planted = [ring for ring in (-3, -4, -5)
               if syscall(KEYCTL, 10, ring, b"user", f"{made['description']}-planted".encode(), 0) >= 0]
    done = {"heard": heard, "signals": signals, "keys": len(planted), "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
            "priority": os.getpriority(os.PRIO_PROCESS, 0) - priority, "semaphore": LIBC.semctl(semaphore, 0, 12)}
    LIBC.shmctl(segment, 0, None)
    LIBC.msgctl(queue, 0, None)
    LIBC.semctl(semaphore, 0, 0)
    syscall(MQ_UNLINK, made["queue"].encode())
    for name in (made["description"], made["description"] + "-planted"):
        for ring in (-3, -4, -5):
            found = syscall(KEYCTL, 10, ring, b"user", name.encode(), 0)
            if found >= 0:
                syscall(KEYCTL, 9, found, ring, 0, 0)
    print(json.dumps(done), flush=True)


def wait(sockets, gift):
    chosen = selectors.DefaultSelector()
    for one in sockets:
        chosen.register(one, selectors.EVENT_READ)
    chosen.register(sys.stdin, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in chosen.select()]
        for one in ready:
            if one is not sys.stdin:
                hear(one, gift)
        if ready == [sys.stdin]:
            return


resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
main()
