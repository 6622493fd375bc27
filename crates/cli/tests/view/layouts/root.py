"""Makes the root directory of another system in a mount namespace of its own, goes there and runs a program.

`root.py LAYOUT ROOT PREPARED BINARY PATH WORDS…`: the layout is made at ROOT; PREPARED is a directory that outlives this run: `me` in it is the
home directory `/home/me`. BINARY is put to `/opt/windlass/windlass`. PATH is that variable in the layout.
"""

import ctypes
import os
import platform
import shutil
import socket
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MS_BIND, MS_REC = 4096, 16384
ROOT, PREPARED, BINARY = "", "", ""


def checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    result = LIBC.mount(*texts, ctypes.c_ulong(flags), None if data is None else os.fsencode(data))
    checked(result, f"mount {source} {target}")


def bind(place, source=None):
    """Makes a place of this machine one of the layout."""
    source = source or place
    target = ROOT + place
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        put(place, "")
    mount(source, target, flags=MS_BIND | MS_REC)


def put(place, text, mode=0o644):
    os.makedirs(os.path.dirname(ROOT + place), exist_ok=True)
    with open(ROOT + place, "w") as file:
        file.write(text)
    os.chmod(ROOT + place, mode)


def link(target, place):
    os.makedirs(os.path.dirname(ROOT + place), exist_ok=True)
    os.symlink(target, ROOT + place)


def listen(place):
    """A socket in the file system. Nobody has to be behind it: it may not be seen at all."""
    os.makedirs(os.path.dirname(ROOT + place), exist_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(ROOT + place)
    made.close()


def common(is_merged=True, has_bound_home=True):
    """What every system has: the kernel's file systems, secrets, sockets, a home."""
    for place in ("/proc", "/sys", "/dev"):
        bind(place)
    for place in ("/tmp", "/var/tmp"):
        os.makedirs(ROOT + place, exist_ok=True)
        os.chmod(ROOT + place, 0o1777)
    put("/etc/hosts", "127.0.0.1 localhost\n")
    put("/etc/nsswitch.conf", "passwd: files\nhosts: files dns\n")
    put("/etc/passwd", "root:x:0:0:root:/home/me:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    put("/etc/group", "root:x:0:\nnogroup:x:65534:\n")
    secrets()
    if has_bound_home:
        bind("/home/me", f"{PREPARED}/me")
    else:
        os.makedirs(ROOT + "/home/me/work")
    if is_merged:
        bind("/usr")
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.exists(f"/usr/{name}"):
                link(f"usr/{name}", f"/{name}")
    for name in ("ld.so.cache", "ld.so.conf"):
        if os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", f"{ROOT}/etc/{name}")
    if os.path.isdir("/etc/alternatives"):
        shutil.copytree("/etc/alternatives", f"{ROOT}/etc/alternatives", symlinks=True, dirs_exist_ok=True)


def secrets():
    put("/etc/shadow", "canary in shadow\n", 0o600)
    put("/etc/gshadow", "canary in gshadow\n", 0o640)
    put("/etc/ssh/ssh_host_ed25519_key", "canary in a host key\n", 0o600)
    put("/etc/ssh/ssh_host_rsa_key", "canary in a host key that all may read\n", 0o644)
    put("/etc/ssl/private/site.key", "canary in a private key\n", 0o644)
    put("/etc/NetworkManager/system-connections/home.nmconnection", "canary in a password\n", 0o600)
    put("/run/secrets/token", "canary in run\n")
    put("/run/user/0/keyring/note", "canary of the user\n")
    for place in ("/run/dbus/system_bus_socket", "/run/user/0/bus", "/run/docker.sock", "/run/systemd/private"):
        listen(place)
    link("/run", "/var/run")


def ubuntu():
    common()
    put("/etc/os-release", "NAME=Ubuntu\n")
    put("/run/systemd/resolve/stub-resolv.conf", "nameserver 192.0.2.53\n")
    listen("/run/systemd/resolve/io.systemd.Resolve")
    link("../run/systemd/resolve/stub-resolv.conf", "/etc/resolv.conf")
    put("/snap/core/current/usr/bin/hello", "#!/bin/sh\necho hello from a snap\n", 0o755)
    link("/snap/core/current/usr/bin/hello", "/snap/bin/hello")
    listen("/run/snapd.socket")


def fedora():
    common()
    put("/etc/os-release", "NAME=Fedora\n")
    put("/run/NetworkManager/resolv.conf", "nameserver 192.0.2.53\n")
    put("/run/NetworkManager/secret", "canary of a connection\n")
    link("/run/NetworkManager/resolv.conf", "/etc/resolv.conf")
    put("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "certificates of everybody\n")
    link("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt")
    put("/etc/pki/tls/private/localhost.key", "canary of the web server\n", 0o600)
    put("/etc/crypto-policies/back-ends/opensslcnf.config", "policy\n")
    link("/usr/bin/env", "/etc/alternatives/windlass-test")
    link("/etc/alternatives/windlass-test", "/opt/bin/alternative")
    put("/var/lib/rpm/rpmdb.sqlite", "packages\n")


def debian():
    """Without the merger: `/bin`, `/sbin` and `/lib` are directories."""
    common(is_merged=False)
    bind("/usr")
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.exists(f"/usr/{name}"):
            bind(f"/{name}", f"/usr/{name}")
    put("/etc/os-release", "NAME=Debian\n")
    put("/etc/debian_version", "11.0\n")
    put("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    put("/var/lib/dpkg/status", "Package: bash\n")


INTERPRETERS = {"x86_64": b"/lib64/ld-linux-x86-64.so.2", "aarch64": b"/lib/ld-linux-aarch64.so.1"}


def into_store(program, place, libraries):
    """Copies a program so that it starts with the loader of the store, and its libraries."""
    old, new = INTERPRETERS[platform.machine()], b"/nix/store/glibc/ld.so"
    with open(program, "rb") as file:
        content = file.read()
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as file:
        file.write(content.replace(old + b"\0", new.ljust(len(old), b"\0") + b"\0", 1))
    os.chmod(place, 0o755)
    shutil.copy(old.decode(), libraries + "/../ld.so")
    for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines():
        words = line.split()
        if "=>" in words and words[2].startswith("/"):
            shutil.copy(words[2], libraries)


def fill_store(store):
    libraries = store + "/glibc/lib"
    os.makedirs(libraries)
    into_store(shutil.which("bash", path="/usr/bin:/bin"), store + "/bash-5.2/bin/bash", libraries)
    into_store(BINARY, store + "/windlass-1/bin/windlass", libraries)
    os.makedirs(store + "/system/sw/bin")
    for name in ("cat", "ls", "env", "true", "find", "readlink", "mkdir", "rm"):
        into_store(shutil.which(name, path="/usr/bin:/bin"), f"{store}/coreutils-9/bin/{name}", libraries)
        os.symlink(f"/nix/store/coreutils-9/bin/{name}", f"{store}/system/sw/bin/{name}")
    for name in ("bash", "sh"):
        os.symlink("/nix/store/bash-5.2/bin/bash", f"{store}/system/sw/bin/{name}")
    os.makedirs(store + "/etc/etc/ssl/certs")
    for name, text in [("os-release", "NAME=NixOS\n"), ("ssl/certs/ca-bundle.crt", "certificates of everybody\n")]:
        with open(f"{store}/etc/etc/{name}", "w") as file:
            file.write(text)


def nixos():
    """No `/usr` but `/usr/bin/env`, no `/bin` but `/bin/sh`; all programs by links in `/run`."""
    common(is_merged=False)
    store = PREPARED + "/nix/store"
    if not os.path.exists(store):
        fill_store(store)
    bind("/nix", PREPARED + "/nix")
    link("/nix/store/system", "/run/current-system")
    link("/nix/store/system", "/run/booted-system")
    put("/run/wrappers/bin/sudo", "#!/bin/sh\necho a wrapper\n", 0o4755)
    link("/nix/store/bash-5.2/bin/bash", "/bin/sh")
    link("/nix/store/coreutils-9/bin/env", "/usr/bin/env")
    link("/nix/store/etc/etc", "/etc/static")
    link("/etc/static/os-release", "/etc/os-release")
    link("/etc/static/ssl/certs/ca-bundle.crt", "/etc/ssl/certs/ca-bundle.crt")
    put("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    # Programs that were not built for a store find its libraries by this.
    put("/etc/ld.so.conf", "/nix/store/glibc/lib\n")
    subprocess.run(["ldconfig", "-X", "-r", ROOT], check=True)


def overlay():
    """A container: its root is an overlay, on which no other overlay can keep its changes."""
    place = ROOT + ".layers"
    os.makedirs(place, exist_ok=True)
    mount("layers", place, "tmpfs")
    for name in ("lower", "upper", "work"):
        os.mkdir(f"{place}/{name}")
    options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
    mount("overlay", ROOT, "overlay", data=options)
    common(has_bound_home=False)
    put("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    bind("/opt/windlass/windlass", BINARY)


def without_namespaces():
    """This machine, for somebody who can make no user namespace and has no rights that would do instead."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def enter():
    os.makedirs(ROOT + "/old", exist_ok=True)
    os.chdir(ROOT)
    number = 41 if platform.machine() == "aarch64" else 155
    checked(LIBC.syscall(ctypes.c_long(number), b".", b"old"), "pivot_root")
    os.chdir("/")
    checked(LIBC.umount2(b"/old", 2), "umount")
    os.rmdir("/old")
    os.chdir("/home/me/work")


def main():
    global ROOT, PREPARED, BINARY
    layout, ROOT, PREPARED, BINARY, path, *words = sys.argv[1:]
    if layout == "without_namespaces":
        without_namespaces()
        os.chdir(PREPARED + "/me/work")
    else:
        if layout != "overlay":
            mount("layout", ROOT, "tmpfs", data="mode=755")
            if layout != "nixos":
                bind("/opt/windlass/windlass", BINARY)
        globals()[layout]()
        enter()
    os.environ["PATH"] = path
    os.execvp(words[0], words)


main()
