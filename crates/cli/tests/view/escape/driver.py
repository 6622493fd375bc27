"""Makes every attempt of `attempts.json`, each in a process of its own, and prints what came of it.

`NAME: got TEXT` is an attempt that succeeded, with what it read, backwards, so that no redaction of known values hides it; with `--all`
also `NAME: ERRNO`. The same text goes to `loot.txt`, for starts whose output nobody sees. The test does not believe a word of it that
it can see for itself: it looks for its own canaries, at its own files and at its own sockets.
"""

import ctypes
import errno
import glob
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
HERE = os.path.dirname(os.path.abspath(__file__))
IS_ARM = platform.machine() == "aarch64"
NUMBERS = {  # x86_64, aarch64
    "add_key": (248, 217), "keyctl": (250, 219), "mq_open": (240, 180), "mq_timedreceive": (243, 183),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "process_vm_readv": (310, 270), "renameat2": (316, 276),
}
CLONE_NEWNS, CLONE_NEWUSER, MS_BIND, MS_REC, AT_FDCWD = 0x20000, 0x10000000, 4096, 16384, -100


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(name, *arguments):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    LIBC.syscall.restype = ctypes.c_long
    return checked(LIBC.syscall(ctypes.c_long(NUMBERS[name][IS_ARM]), *words))


def mount(source, target, kind=None, flags=0, data=None):
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    checked(LIBC.mount(*texts, ctypes.c_ulong(flags), None if data is None else os.fsencode(data)))


def own_namespaces():
    """A user namespace in which we are root, and a mount namespace."""
    user, group = os.getuid(), os.getgid()
    checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    for name, text in [("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def scratch():
    try:
        return tempfile.mkdtemp(prefix="scratch-", dir=HERE)
    except OSError:
        return tempfile.mkdtemp(prefix="scratch-")


def processes():
    return [name for name in os.listdir("/proc") if name.isdigit()]


def first(tries):
    """What the first of several tries gives; if none does, why the last did not."""
    failed = OSError(errno.ENOENT, "nothing to try")
    for one in tries:
        try:
            return one()
        except OSError as error:
            failed = error
    raise failed


def read(path):
    with open(path, "rb") as file:
        return file.read(400)


def run(*words, text=None):
    done = subprocess.run(words, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5)
    if done.returncode != 0:
        raise OSError(errno.EPERM, done.stdout.decode(errors="replace")[-200:])
    return done.stdout


# Ways to read a file.

def read_name(path):
    return read(path)


def read_self_root(path):
    return read("/proc/self/root" + path)


def read_init_root(path):
    return read("/proc/1/root" + path)


def read_process_roots(path):
    return first([lambda p=p: read(f"/proc/{p}/root{path}") for p in processes()])


def read_process_directories(path):
    return first([lambda p=p: read(f"/proc/{p}/cwd/{'../' * 30}{path}") for p in processes()])


def read_link(path):
    link = os.path.join(scratch(), "link")
    os.symlink(path, link)
    return read(link)


def read_climbing(path):
    return read("../" * 30 + path)


def read_hard_link(path):
    link = os.path.join(scratch(), "link")
    os.link(path, link)
    return read(link)


def read_handle(path, kind, handle):
    raw = bytes.fromhex(handle)
    buffer = ctypes.create_string_buffer(struct.pack("Ii", len(raw), kind) + raw)

    def from_mount(place):
        at = os.open(place, os.O_RDONLY)
        return os.read(syscall("open_by_handle_at", at, buffer, os.O_RDONLY), 400)

    return first([lambda p=p: from_mount(p) for p in (".", "/", "/tmp", "/usr", os.path.dirname(path))])


def read_descriptors(path):
    def through(fd):
        try:
            return os.read(os.open("../" * 30 + path, os.O_RDONLY, dir_fd=fd), 400)
        except NotADirectoryError:
            return os.pread(fd, 400, 0)

    return first([lambda fd=fd: through(fd) for fd in range(3, 256)])


def read_bind_mount(path):
    own_namespaces()
    place = scratch()
    mount(os.path.dirname(path), place, flags=MS_BIND | MS_REC)
    return read(os.path.join(place, os.path.basename(path)))


def read_overlay_mount(path):
    own_namespaces()
    place = scratch()
    mount("overlay", place, "overlay", data=f"lowerdir={os.path.dirname(path)}:/usr")
    return read(os.path.join(place, os.path.basename(path)))


def read_unmounting(path):
    own_namespaces()
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    for point in reversed(points):
        LIBC.umount2(os.fsencode(point), 2)
    return read(path)


def read_leaving_chroot(path):
    own_namespaces()
    root = os.open("/", os.O_RDONLY)
    checked(LIBC.chroot(os.fsencode(scratch())))
    os.fchdir(root)
    return read("../" * 30 + path)


def read_chroot_of_init(path):
    own_namespaces()
    checked(LIBC.chroot(b"/proc/1/root"))
    return read(path)


def read_pivot_root(path):
    own_namespaces()
    place = scratch()
    mount("/", place, flags=MS_BIND | MS_REC)
    os.chdir(place)
    syscall("pivot_root", b".", b".")
    checked(LIBC.umount2(b".", 2))
    return read(path)


def read_namespaces(path):
    def enter(process):
        for kind in ("user", "mnt"):
            try:
                checked(LIBC.setns(os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY), 0))
            except OSError:
                if kind == "mnt":
                    raise
        return read(path)

    return first([lambda p=p: enter(p) for p in ["1", str(os.getppid()), *processes()]])


def read_tree(path):
    fd = first([lambda f=f: syscall("open_tree", AT_FDCWD, os.fsencode(path), f) for f in (1, 0)])
    return read(f"/proc/self/fd/{fd}")


def read_mount_sources(path):
    candidates = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            root, point, options = words[3], words[4], words[-1]
            if path.startswith(root.rstrip("/") + "/"):
                candidates.append(point + "/" + path[len(root.rstrip("/")):])
            for option in options.split(","):
                for place in option.partition("=")[2].split(":"):
                    candidates += [place + path, place + "/../" * 9 + path]
    return first([lambda c=c: read(c) for c in candidates])


def read_command(path, words):
    return run(*[word.replace("PATH", path) for word in words])


def read_everywhere(path):
    """Every file of that name, in places where files of others are."""
    tops = ["/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~"), os.path.dirname(HERE)]
    found = []
    for top in tops:
        for folder, folders, files in os.walk(top):
            folders[:] = folders[:200]
            if os.path.basename(path) in files:
                try:
                    found.append(read(os.path.join(folder, os.path.basename(path)))[:30])
                except OSError:
                    pass
    if not found:
        raise OSError(errno.ENOENT, "nowhere")
    return b" ".join(found)


# Ways to change `path`, a file in a directory that is there for this attempt alone.

def plant(path, flags=os.O_CREAT):
    fd = os.open(path, os.O_WRONLY | flags, 0o755)
    os.write(fd, b"planted\n")
    os.close(fd)


def own_file():
    path = os.path.join(scratch(), "file")
    plant(path)
    return path


def write_name(path):
    plant(path, os.O_TRUNC)


def write_new(path):
    plant(path + ".new")


def write_append(path):
    plant(path, os.O_APPEND)


def write_truncate(path):
    os.truncate(path, 0)


def write_unlink(path):
    os.unlink(path)


def write_rename_over(path):
    os.rename(own_file(), path)


def write_rename_away(path):
    os.rename(path, path + ".old")


def write_exchange(path):
    syscall("renameat2", AT_FDCWD, os.fsencode(own_file()), AT_FDCWD, os.fsencode(path), 2)


def write_mode(path):
    os.chmod(path, 0o4777)


def write_time(path):
    os.utime(path, (1, 1))


def write_attribute(path):
    os.setxattr(path, "user.planted", b"planted")


def write_directory(path):
    os.mkdir(path + ".directory")


def write_pipe(path):
    os.mkfifo(path + ".pipe")


def write_link_to(path):
    os.symlink("planted", path + ".link")


def write_hard_link(path):
    link = os.path.join(scratch(), "link")
    os.link(path, link)
    plant(link)


def write_hard_link_out(path):
    os.link(own_file(), path + ".hard")


def write_through_link(path):
    link = os.path.join(scratch(), "link")
    os.symlink(path, link)
    plant(link)


def write_below_link(path):
    link = os.path.join(scratch(), "link")
    os.symlink(os.path.dirname(path), link)
    plant(link + "/planted")


def write_climbing(path):
    plant("../" * 30 + path)


def write_self_root(path):
    plant("/proc/self/root" + path)


def write_process_roots(path):
    first([lambda p=p: plant(f"/proc/{p}/root{path}", 0) for p in processes()])


def write_descriptor(path):
    fd = os.open(path, os.O_RDONLY)
    plant(f"/proc/self/fd/{fd}")


def write_nameless(path):
    fd = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, b"planted\n")
    os.link(f"/proc/self/fd/{fd}", path + ".born", follow_symlinks=True)


def write_bind_mount(path):
    own_namespaces()
    place = scratch()
    mount(os.path.dirname(path), place, flags=MS_BIND | MS_REC)
    mount(None, place, flags=MS_BIND | 32)
    plant(os.path.join(place, "planted"))


def write_remount(path):
    own_namespaces()
    for point in ("/", os.path.dirname(os.path.dirname(path))):
        LIBC.mount(None, os.fsencode(point), None, ctypes.c_ulong(MS_BIND | 32), None)
    plant(path)


def write_handle(path, kind, handle):
    raw = bytes.fromhex(handle)
    buffer = ctypes.create_string_buffer(struct.pack("Ii", len(raw), kind) + raw)

    def from_mount(place):
        fd = syscall("open_by_handle_at", os.open(place, os.O_RDONLY), buffer, os.O_WRONLY)
        os.write(fd, b"planted\n")

    first([lambda p=p: from_mount(p) for p in (".", "/", "/tmp", "/usr", os.path.dirname(path))])


def write_start_file(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    plant(path)


# What else may not be done.

def do_plant(path):
    """A new file in a place of the system."""
    plant(path)


def do_directory(path):
    os.mkdir(path)


def do_open(path):
    """A device."""
    found = glob.glob(path)
    fd = first([lambda f=f: os.open(f, os.O_RDONLY | os.O_NONBLOCK) for f in found])
    os.close(fd)


def do_open_for_writing(path):
    """A setting of the kernel; nothing is written."""
    found = glob.glob(path)
    os.close(first([lambda f=f: os.open(f, os.O_WRONLY) for f in found]))


def do_run(words):
    return run(*words)


def do_node(path, kind, major, minor):
    os.mknod(os.path.join(HERE, path), 0o666 | kind, os.makedev(major, minor))


def do_set_id(path, mode, way):
    path = os.path.join(HERE, path)
    if way == "born":
        os.umask(0)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        return
    plant(path)
    if way == "descriptor":
        os.fchmod(os.open(path, os.O_RDONLY), mode)
    else:
        os.chmod(path, mode)


def do_connect(family, kind, address, message):
    made = socket.socket(getattr(socket, family), getattr(socket, kind))
    made.settimeout(2)
    if isinstance(address, str):
        address = address.replace("@", "\0", 1) if address.startswith("@") else address
    else:
        address = tuple(address)
    made.connect(address)
    made.send(message.encode())


def do_connect_near(path, message):
    """By a name without a directory."""
    os.chdir(os.path.dirname(path))
    do_connect("AF_UNIX", "SOCK_STREAM", os.path.basename(path), message)


def do_connect_linked(path, message):
    link = os.path.join(scratch(), "link")
    os.symlink(path, link)
    do_connect("AF_UNIX", "SOCK_STREAM", link, message)


def do_connect_hard_linked(path, message):
    link = os.path.join(scratch(), "link")
    os.link(path, link)
    do_connect("AF_UNIX", "SOCK_STREAM", link, message)


def do_take_descriptor(path, message):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(2)
    made.connect(path)
    made.send(message.encode())
    _, descriptors, _, _ = socket.recv_fds(made, 10, 1)
    return os.pread(descriptors[0], 400, 0)


def do_environment():
    def environment(process):
        text = read_all(f"/proc/{process}/environ")
        at = text.index(b"CANARY_") if b"CANARY_" in text else -1
        if at < 0:
            raise OSError(errno.ENOENT, "not in it")
        return text[at:at + 100]

    return first([lambda p=p: environment(p) for p in processes()])


def read_all(path):
    with open(path, "rb") as file:
        return file.read()


def do_process_file(process, name):
    return read(f"/proc/{process}/{name}")


def do_process_memory(process, address):
    with open(f"/proc/{process}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(60)


def do_read_memory(process, address):
    room = ctypes.create_string_buffer(60)
    local = struct.pack("NN", ctypes.addressof(room), 60)
    remote = struct.pack("NN", address, 60)
    local, remote = ctypes.create_string_buffer(local), ctypes.create_string_buffer(remote)
    syscall("process_vm_readv", process, local, 1, remote, 1, 0)
    return room.raw


def do_trace(process, address):
    attach, peek, detach, seize = 16, 1, 17, 0x4206
    LIBC.ptrace.restype = ctypes.c_long
    words = [ctypes.c_long(process), ctypes.c_void_p(0), ctypes.c_void_p(0)]
    if LIBC.ptrace(ctypes.c_long(attach), *words) < 0:
        checked(LIBC.ptrace(ctypes.c_long(seize), *words))
    os.waitpid(process, 0x40000000)
    text = b""
    for offset in range(0, 48, 8):
        word = LIBC.ptrace(ctypes.c_long(peek), words[0], ctypes.c_void_p(address + offset), None)
        text += struct.pack("l", word)
    LIBC.ptrace(ctypes.c_long(detach), *words)
    return text


def do_signal(process, way):
    if way == "kill":
        os.kill(process, signal.SIGURG)
    elif way == "everybody":
        os.kill(-1, signal.SIGURG)
    else:
        fd = syscall("pidfd_open", process, 0)
        syscall("pidfd_send_signal", fd, int(signal.SIGURG), None, 0)


def do_take_from_process(process, descriptor):
    fd = syscall("pidfd_getfd", syscall("pidfd_open", process, 0), descriptor, 0)
    return os.pread(fd, 400, 0)


def do_limit(process):
    import resource

    resource.prlimit(process, resource.RLIMIT_CORE, (4096, 4096))


def do_priority(process):
    # Both began with the same one, which `nice` may have given to all tests; everybody may go up by one.
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, process, own + 1 if own < 19 else 18)


def do_shared_memory(key):
    LIBC.shmat.restype = ctypes.c_void_p
    segment = checked(LIBC.shmget(key, 0, 0))
    at = LIBC.shmat(segment, None, 0o10000)
    if at == ctypes.c_void_p(-1).value:
        checked(-1)
    return ctypes.string_at(at, 60)


def do_message_queue(key):
    queue = checked(LIBC.msgget(key, 0))
    room = ctypes.create_string_buffer(108)
    copy, no_wait = 0o40000, 0o4000
    LIBC.msgrcv.restype = ctypes.c_ssize_t
    flags = no_wait | copy
    length = LIBC.msgrcv(queue, room, ctypes.c_size_t(100), ctypes.c_long(0), flags)
    if length < 0:
        length = checked(LIBC.msgrcv(queue, room, ctypes.c_size_t(100), ctypes.c_long(0), no_wait))
    return room.raw[8:8 + length]


def do_semaphore(key):
    checked(LIBC.semctl(checked(LIBC.semget(key, 1, 0)), 0, 16, 5))


def do_posix_queue(name):
    queue = syscall("mq_open", os.fsencode(name), os.O_RDWR | os.O_NONBLOCK, 0, None)
    room = ctypes.create_string_buffer(200)
    length = syscall("mq_timedreceive", queue, room, 200, None, None)
    return room.raw[:length]


def do_key(description, ring):
    key = syscall("keyctl", 10, ring, b"user", os.fsencode(description), 0)
    room = ctypes.create_string_buffer(100)
    return room.raw[:syscall("keyctl", 11, key, room, 100, 0)]


def do_add_key(description, ring):
    syscall("add_key", b"user", os.fsencode(description), b"planted", 7, ring)


def attempt(one):
    function = globals()[one["op"]]
    return function(**one["with"])


def outcome(one):
    """Makes one attempt in a child, so that what it does to itself ends with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os.close(reader)
        try:
            text = "got " + (attempt(one) or b"").decode(errors="replace")[:100].replace("\n", " ")[::-1]
        except OSError as error:
            text = errno.errorcode.get(error.errno, str(error.errno))
        except Exception as error:
            text = type(error).__name__ + " " + str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while part := os.read(reader, 4096):
        text += part
    os.close(reader)
    os.waitpid(child, 0)
    return text.decode() or "died"


def inherited():
    found = []
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
            found.append(str(fd))
        except OSError:
            pass
    return found


def handles(paths):
    """The kernel's handles of files: what somebody who has seen them before would know."""
    for path in paths:
        buffer = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        at = ctypes.c_int()
        try:
            syscall("name_to_handle_at", AT_FDCWD, os.fsencode(path), buffer, ctypes.byref(at), 0)
            length, kind = struct.unpack("Ii", buffer.raw[:8])
            print(kind, buffer.raw[8:8 + length].hex())
        except OSError:
            print(0, "00")


def main():
    descriptors = " ".join(inherited()) or "none"
    lines = []
    with open(os.path.join(HERE, "attempts.json")) as file:
        attempts = json.load(file)
    os.chdir(HERE)
    is_all = "--all" in sys.argv
    for one in attempts:
        text = outcome(one)
        if is_all or text.startswith("got"):
            lines.append(f"{one['name']}: {text}")
    # At both ends: some starts show only the beginning, some only the end.
    summary = f"tried {len(attempts)}, inherited descriptors: {descriptors}"
    report = "\n".join([summary, *lines, summary]) + "\n"
    try:
        with open(os.path.join(HERE, "loot.txt"), "a") as file:
            file.write(report)
    except OSError:
        pass
    stream = sys.stderr if "--stderr" in sys.argv else sys.stdout
    stream.write(report)


if len(sys.argv) > 1 and sys.argv[1] == "--handles":
    handles(sys.argv[2:])
else:
    main()
    sys.exit(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0)
