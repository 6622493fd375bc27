//! Attempts to reach servers outside, and the loopback interface of a program.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::Command;
use std::time::Duration;

use libc::{AF_ALG, AF_INET, AF_NETLINK, AF_PACKET, AF_VSOCK};
use libc::{EACCES, EAFNOSUPPORT, EAGAIN, ECONNREFUSED, EPERM, EPROTONOSUPPORT};
use windlass_sandbox::{Ending, ProgramNetwork, landlock_version};

use crate::attempt::{AttemptContext, Escape, attempt_among_others, check, print_line};
use crate::files::errno_result;
use crate::support::TestSandbox;

const FAMILY_REFUSED: &[i32] = &[EAFNOSUPPORT];

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("connect by TCP", connect, &[ECONNREFUSED]),
    Escape::new("connect by TCP from a shell", connect_from_shell, &[ECONNREFUSED]),
    Escape::new("ask by UDP", |at| ask(at, b"hello"), &[ECONNREFUSED]),
    Escape::new("ask for a name", |at| ask(at, DNS_QUERY), &[ECONNREFUSED]),
    Escape::new("send without a connection", ask_unconnected, &[EAGAIN]),
    Escape::new("connect to an abstract socket", connect_abstract, &[ECONNREFUSED]),
    Escape::new(
        "connect to a socket in a masked directory",
        |at| UnixStream::connect(at.text("SOCKET")).map(drop),
        &[EACCES],
    ),
    Escape::new("hear of devices", |_| socket(AF_NETLINK, libc::SOCK_RAW, 15), FAMILY_REFUSED),
    Escape::new("hear the audit", |_| socket(AF_NETLINK, libc::SOCK_RAW, 9), FAMILY_REFUSED)
        .if_there_is(EPROTONOSUPPORT),
    Escape::new(
        "talk to the host of the machine",
        |_| socket(AF_VSOCK, libc::SOCK_STREAM, 0),
        FAMILY_REFUSED,
    )
    .if_there_is(EAFNOSUPPORT),
    Escape::new(
        "use the kernel's ciphers",
        |_| socket(AF_ALG, libc::SOCK_SEQPACKET, 0),
        FAMILY_REFUSED,
    )
    .if_there_is(EAFNOSUPPORT),
    Escape::new("hear packets", |_| socket(AF_PACKET, libc::SOCK_RAW, 0x0300), FAMILY_REFUSED)
        .for_root(),
    Escape::new("send raw packets", |_| socket(AF_INET, libc::SOCK_RAW, 1), &[EPERM]).for_root(),
];

#[test]
fn no_server_outside_is_reached() {
    check(ESCAPES);
}

fn connect(at: &AttemptContext) -> io::Result<()> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, at.number("TCP"))).map(drop)
}

fn connect_from_shell(at: &AttemptContext) -> io::Result<()> {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", at.number::<u16>("TCP"));
    let output = Command::new("/bin/bash").args(["-c", &script]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    match said.as_ref() {
        "" => Ok(()),
        said if said.contains("Connection refused") => {
            Err(io::Error::from_raw_os_error(ECONNREFUSED))
        }
        said if said.contains("not supported") => Err(io::Error::from_raw_os_error(EAFNOSUPPORT)),
        said => panic!("{said}"),
    }
}

/// A DNS query for the address of `a.`.
const DNS_QUERY: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

fn ask(at: &AttemptContext, question: &[u8]) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, at.number("UDP")))?;
    socket.send(question)?;
    receive_answer(&socket, question)
}

fn ask_unconnected(at: &AttemptContext) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.send_to(b"hello", (Ipv4Addr::LOCALHOST, at.number("UDP")))?;
    receive_answer(&socket, b"hello")
}

fn receive_answer(socket: &UdpSocket, question: &[u8]) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut received = [0; 64];
    let length = socket.recv(&mut received)?;
    assert_eq!(&received[..length], question);
    Ok(())
}

fn connect_abstract(at: &AttemptContext) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(at.text("ABSTRACT"))?;
    UnixStream::connect_addr(&address).map(drop)
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    // SAFETY: numbers.
    errno_result(unsafe { libc::socket(family, kind, protocol) })
}

/// A program in the machine's network must not reach other programs of the machine by local sockets.
#[test]
fn shared_network_allows_internet_sockets_only() {
    let shared =
        || TestSandbox::confined().with_view(|view| view.network = ProgramNetwork::Machine);
    assert_eq!(attempt_among_others(shared(), "connect by TCP"), Ok(()));
    let refused = if landlock_version() >= 6 { Err(EPERM) } else { Ok(()) };
    assert_eq!(attempt_among_others(shared(), "connect to an abstract socket"), refused);
    for name in ["hear of devices", "talk to the host of the machine", "hear packets"] {
        assert_eq!(attempt_among_others(shared(), name), Err(EAFNOSUPPORT), "{name}");
    }
    assert_eq!(attempt_among_others(shared(), "send raw packets"), Err(EPERM));
}

/// Sends text over the loopback interface.
pub(crate) fn talk_to_oneself(_: &AttemptContext) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap().0.write_all(b"hello").unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    print_line(&received);
}

#[test]
fn program_has_a_loopback_interface() {
    let (program, mut output) = TestSandbox::confined().start_attempt("talk to oneself").unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert!(printed.contains("\nhello\n"), "{:?}: {printed}", program.wait());
}

/// The listener, which the caller serves, is all that a program reaches outside.
#[test]
fn listener_is_reached_from_inside() {
    let sandbox =
        TestSandbox::confined().with_view(|view| view.network = ProgramNetwork::Listener(3128));
    let script = "port=$(awk '$4 == \"0A\" { split($2, at, \":\"); print at[2] }' /proc/net/tcp)
                  exec 3<>/dev/tcp/127.0.0.1/$((16#$port)); echo asked >&3; cat <&3";
    let (mut program, mut output) = sandbox.start(script).unwrap();
    let listener = program.take_listener().expect("a listener");
    assert!(program.take_listener().is_none());
    let (mut stream, _) = listener.accept().unwrap();
    let mut received = [0; 6];
    stream.read_exact(&mut received).unwrap();
    stream.write_all(b"answered").unwrap();
    drop(stream);
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert_eq!((&received, &*printed), (b"asked\n", "answered"));
}

/// A server answers a program of the same session, also after the session's first program has ended, and no other program.
#[test]
fn programs_of_a_session_share_the_loopback_interface() {
    let serve = "exec 3<>/dev/tcp/127.0.0.1/7000 && cat <&3";
    let server = "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); \
                  bind(S, sockaddr_in(7000, INADDR_LOOPBACK)) or die; listen(S, 5); $| = 1; print \"ready\\n\"; \
                  while (accept(C, S)) { print C \"served\\n\"; close C }'";
    let sandbox = TestSandbox::confined();
    let (mut first, _output) = sandbox.start("true").unwrap();
    let session = first.take_session().expect("the namespaces of the first program");
    assert!(first.take_session().is_none());
    assert_eq!(first.wait().unwrap(), Ending::Exited(0));
    let (server, mut output) = sandbox.start_in(server, &session).unwrap();
    let mut ready = [0; 6];
    output.read_exact(&mut ready).unwrap();
    let (client, mut output) = sandbox.start_in(serve, &session).unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert_eq!((client.wait().unwrap(), &*printed), (Ending::Exited(0), "served\n"));
    assert!(sandbox.run(serve).1.contains("refused"), "a program of no session");
    drop(server);
}
