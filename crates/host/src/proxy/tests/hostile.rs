//! Clients that are slow, silent, flooding, or send random bytes.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

fn quick() -> ProxySettings {
    ProxySettings { head_time: Duration::from_millis(100), ..private_settings() }
}

#[tokio::test]
async fn silent_client_times_out() {
    bounded(async {
        let proxy_under_test = TestProxy::new(&[], quick());
        for (said, answer) in [
            ("", ""),
            ("G", "HTTP/1.1 408 "),
            ("GET http://docs.rs/ HTTP/1.1\r\nA: b\r\n", "HTTP/1.1 408 "),
            ("\x05", ""),
            ("\x05\x01", ""),
        ] {
            let found = proxy_under_test.ask(said).await;
            assert!(found.starts_with(answer) && found.is_empty() == answer.is_empty(), "{found}");
        }
        assert_eq!(
            proxy_under_test.talk(b"\x05\x01\0\x05\x01\0").await,
            b"\x05\0",
            "greeted, and no further"
        );
    })
    .await;
}

#[tokio::test]
async fn unknown_protocol_is_reported() {
    bounded(async {
        let proxy_under_test = TestProxy::new(&[], ProxySettings::default());
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
            let answer = proxy_under_test.ask(said).await;
            assert!(answer.starts_with(expected), "{}: {answer}", said.escape_ascii());
        }
        // SOCKS4, and SOCKS5 with a password only.
        let answer = proxy_under_test.talk(b"\x04\x01\0\x50\x01\x02\x03\x04\0").await;
        assert_eq!(answer, b"\0\x5b\0\0\0\0\0\0");
        assert_eq!(proxy_under_test.talk(b"\x05\x01\x02").await, b"\x05\xff");
        assert!(proxy_under_test.proxy.refused().is_empty());
    })
    .await;
}

#[tokio::test]
async fn endless_head_is_refused() {
    bounded(async {
        let proxy_under_test = TestProxy::new(&[], ProxySettings::default());
        let endless = format!("GET http://docs.rs/{} HTTP/1.1\r\n\r\n", "a".repeat(500_000));
        let answer = proxy_under_test.ask(endless).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "the answer comes through: {answer}");
        let many = format!("GET http://docs.rs/ HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert!(proxy_under_test.ask(many).await.starts_with("HTTP/1.1 431 "));
    })
    .await;
}

#[tokio::test]
async fn refusal_reaches_a_client_that_keeps_sending() {
    bounded(async {
        let proxy_under_test = TestProxy::new(&[], ProxySettings::default());
        let body = "a".repeat(900_000);
        let length = body.len();
        let said =
            format!("POST http://docs.rs/ HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        // The send buffer is small, so the client can write everything only if the proxy reads everything.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let mut client = socket.connect(proxy_under_test.address).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn closed_connections_free_their_slot() {
    bounded(async {
        let origin = Origin::echo().await;
        let settings = ProxySettings { max_connections: 2, ..private_settings() };
        let proxy_under_test = TestProxy::for_origin_with(&origin, settings);
        let target = format!("localhost:{}", origin.port());
        for _ in 0..20 {
            drop(proxy_under_test.connect().await);
            let half = proxy_under_test.connect().await;
            half.set_zero_linger().unwrap();
            drop(half);
            let tunnel = proxy_under_test.tunnel(&target).await;
            tunnel.set_zero_linger().unwrap();
            drop(tunnel);
        }
        drop(proxy_under_test.tunnel(&target).await);
        while origin.seen.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Generates requests for an unlisted host, with bytes replaced, inserted or cut off.
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
fn no_bytes_reach_an_unlisted_host() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (origin, forbidden) =
        runtime.block_on(async { (Origin::echo().await, Origin::echo().await) });
    let proxy_under_test = runtime.block_on(async { TestProxy::for_origin(&origin) });
    let tell = async |said: &[u8]| {
        let mut client = proxy_under_test.connect().await;
        // The proxy may close before everything is written.
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
    drop(runtime.block_on(bounded(proxy_under_test.tunnel(&target))));
}
