//! Clients that are slow, loud, silent or mad.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

fn quick() -> ProxySettings {
    ProxySettings { head_time: Duration::from_millis(100), ..private() }
}

#[tokio::test]
async fn who_does_not_say_what_it_wants_is_not_waited_for() {
    bounded(async {
        let stand = Stand::new(&[], quick());
        for (said, answer) in [
            ("", ""),
            ("G", "HTTP/1.1 408 "),
            ("GET http://docs.rs/ HTTP/1.1\r\nA: b\r\n", "HTTP/1.1 408 "),
            ("\x05", ""),
            ("\x05\x01", ""),
        ] {
            let found = stand.ask(said).await;
            assert!(found.starts_with(answer) && found.is_empty() == answer.is_empty(), "{found}");
        }
        assert_eq!(stand.talk(b"\x05\x01\0\x05\x01\0").await, b"\x05\0", "greeted, and no further");
    })
    .await;
}

#[tokio::test]
async fn who_speaks_another_language_is_told_so() {
    bounded(async {
        let stand = Stand::new(&[], ProxySettings::default());
        let other = "HTTP/1.1 400 windlass: this is a proxy for HTTP, CONNECT and SOCKS5\r\n";
        for (said, expected) in [
            (&b"\x16\x03\x01\x02\0\x01\0"[..], other),
            (b"\r\nGET http://docs.rs/ HTTP/1.1\r\n\r\n", other),
            (b"\0\0\0\0", other),
            (b"\xff\xfe", other),
            (b"{\"json\":1}\n", other),
            (b"hello\n", "HTTP/1.1 400 windlass: lines of a request end in CR and LF\r\n"),
            (b"SSH-2.0-x\r\n\r\n", "HTTP/1.1 400 windlass: not a request of HTTP: `SSH-2.0-x`\r\n"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 "),
            (
                b"GET / HTTP/1.1\r\nHost: docs.rs\r\n\r\n",
                "HTTP/1.1 400 windlass: this is a proxy: ",
            ),
        ] {
            let answer = stand.ask(said).await;
            assert!(answer.starts_with(expected), "{}: {answer}", said.escape_ascii());
        }
        // SOCKS4, and SOCKS5 with a password only.
        let answer = stand.talk(b"\x04\x01\0\x50\x01\x02\x03\x04\0").await;
        assert_eq!(answer, b"\0\x5b\0\0\0\0\0\0");
        assert_eq!(stand.talk(b"\x05\x01\x02").await, b"\x05\xff");
        assert!(stand.proxy.refused().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_head_without_end() {
    bounded(async {
        let stand = Stand::new(&[], ProxySettings::default());
        let endless = format!("GET http://docs.rs/{} HTTP/1.1\r\n\r\n", "a".repeat(500_000));
        let answer = stand.ask(endless).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "the answer comes through: {answer}");
        let many = format!("GET http://docs.rs/ HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert!(stand.ask(many).await.starts_with("HTTP/1.1 431 "));
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_heard_also_by_who_talks_on() {
    bounded(async {
        let stand = Stand::new(&[], ProxySettings::default());
        let body = "a".repeat(900_000);
        let length = body.len();
        let said =
            format!("POST http://docs.rs/ HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        // The kernel takes little of it at once, so that all of it is said only if all of it is heard.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let mut client = socket.connect(stand.address).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn who_leaves_at_once_leaves_room() {
    bounded(async {
        let origin = Origin::echo().await;
        let settings = ProxySettings { max_connections: 2, ..private() };
        let stand = Stand::for_origin_with(&origin, settings);
        let target = format!("localhost:{}", origin.port());
        for _ in 0..20 {
            drop(stand.connect().await);
            let half = stand.connect().await;
            half.set_zero_linger().unwrap();
            drop(half);
            let tunnel = stand.tunnel(&target).await;
            tunnel.set_zero_linger().unwrap();
            drop(tunnel);
        }
        drop(stand.tunnel(&target).await);
        while origin.seen.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Requests for a host that is not listed, with bytes exchanged, cut off or put in.
fn mutilated(forbidden: u16) -> impl Strategy<Value = Vec<u8>> {
    let requests = [
        format!("GET http://127.0.0.1:{forbidden}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").into(),
        format!("CONNECT localhost:{forbidden} HTTP/1.1\r\n\r\nhello").into(),
        format!("POST http://localhost:{forbidden}/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
            .into(),
        socks_by_name(b"localhost", forbidden),
        socks_by_address(SocketAddr::new("127.0.0.1".parse().unwrap(), forbidden)),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 0..4);
    let mutilated = (prop::sample::select(requests.to_vec()), changes);
    let mutilated = mutilated.prop_map(|(mut bytes, changes): (Vec<u8>, _)| {
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes
    });
    let begun = (
        prop::sample::select(vec![&b"\x05"[..], b"\x05\x01\0", b"GET ", b"CONNECT "]),
        any::<Vec<u8>>(),
    );
    let begun = begun.prop_map(|(start, rest)| [start, &rest].concat());
    prop_oneof![mutilated, begun, any::<Vec<u8>>()]
}

#[test]
fn no_bytes_lead_to_a_host_that_is_not_listed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (origin, forbidden) =
        runtime.block_on(async { (Origin::echo().await, Origin::echo().await) });
    let stand = runtime.block_on(async { Stand::for_origin(&origin) });
    let tell = async |said: &[u8]| {
        let mut client = stand.connect().await;
        // It may be closed before all is said.
        drop(client.write_all(said).await);
        drop(client.shutdown().await);
        closed(&mut client).await;
    };
    let mut runner = TestRunner::new(Config { cases: 300, ..Config::default() });
    let law = runner.run(&mutilated(forbidden.port()), |said| {
        runtime.block_on(bounded(tell(&said)));
        prop_assert_eq!(forbidden.connections(), 0);
        Ok(())
    });
    law.unwrap();
    let target = format!("localhost:{}", origin.port());
    drop(runtime.block_on(bounded(stand.tunnel(&target))));
}
