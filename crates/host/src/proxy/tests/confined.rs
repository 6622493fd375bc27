//! Refused targets: the responses to the client, and the record of the refusal.

use super::*;

/// Asks for a target by GET, CONNECT and SOCKS5, and checks the responses and the recorded refusal.
async fn check(hosts: &[&str], target: &str, said: &str, note: &str) {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let proxy_under_test = TestProxy::new(&hosts, ProxySettings::default());
    let got =
        proxy_under_test.ask(format!("GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    let connected = proxy_under_test.ask(format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
    for answer in [got, connected] {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 403 windlass: {said}\r\n")), "{head}");
        assert_eq!(body, format!("windlass: {said}\n"));
    }
    let by_socks = if let Ok(address) = target.parse() {
        socks_by_address(address)
    } else {
        let (name, port) = target.rsplit_once(':').unwrap();
        socks_by_name(name.as_bytes(), port.parse().unwrap())
    };
    assert_eq!(
        proxy_under_test.talk(by_socks).await,
        b"\x05\0\x05\x02\0\x01\0\0\0\0\0\0",
        "{target}"
    );
    let [refusal] = &proxy_under_test.proxy.refused()[..] else { panic!("noted three times") };
    assert!(refusal.to_string().starts_with(&format!("not reached: {note}")), "{refusal}");
    assert_eq!(proxy_under_test.proxy.traffic(), Traffic::default());
}

#[tokio::test]
async fn unlisted_hosts_are_refused() {
    bounded(async {
        let list = "is not among those that this command may reach (docs.rs,*.python.org)";
        for (target, host) in [
            ("evil.example:443", "evil.example"),
            ("python.org:443", "python.org"),
            ("docs.rs.evil.example:80", "docs.rs.evil.example"),
            ("8.8.8.8:443", "8.8.8.8"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "::1"),
            ("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1"),
        ] {
            check(&["docs.rs", "*.python.org"], target, &format!("host {host} {list}"), target).await;
        }
        let said = "port 22 of host docs.rs is not among those that this command may reach (docs.rs; a host without a port \
                    stands for its ports 80 and 443)";
        check(&["docs.rs"], "docs.rs:22", said, "docs.rs:22").await;
    })
    .await;
}

#[tokio::test]
async fn listed_hosts_with_private_addresses_are_refused() {
    bounded(async {
        let origin = Origin::http().await;
        let port = origin.port();
        for (host, address, purpose) in [
            ("127.0.0.1", "127.0.0.1", "loopback"),
            ("0.0.0.0", "0.0.0.0", "this network"),
            ("[::1]", "::1", "loopback"),
            ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "IPv4-mapped"),
            ("[64:ff9b::127.0.0.1]", "64:ff9b::7f00:1", "loopback"),
            ("[2002:7f00:1::]", "2002:7f00:1::", "loopback"),
            ("169.254.169.254", "169.254.169.254", "link-local"),
            ("10.0.0.1", "10.0.0.1", "private use"),
        ] {
            let target = Target::parse(&format!("{host}:{port}"), None).unwrap();
            let said = format!(
                "host {} cannot be reached from here: {address} is not a public address: {purpose}; a rule that names it: --allow 'net {target}'",
                target.host
            );
            let note = format!(
                "{target} ({address} is not a public address: {purpose}; a rule that names it: --allow 'net {target}')"
            );
            check(&[&format!("{host}:{port}")], &target.to_string(), &said, &note).await;
        }
        assert_eq!(origin.connections(), 0);
    })
    .await;
}

#[tokio::test]
async fn name_of_the_loopback_is_refused() {
    bounded(async {
        let origin = Origin::http().await;
        let port = origin.port();
        let proxy_under_test = TestProxy::for_origin_with(&origin, ProxySettings::default());
        for said in [
            format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n"),
            format!("CONNECT LOCALHOST.:{port} HTTP/1.1\r\n\r\n"),
        ] {
            let answer = proxy_under_test.ask(said).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains("is not a public address: loopback; "), "{answer}");
            assert!(answer.ends_with(&format!("--allow 'net localhost:{port}'\n")), "{answer}");
        }
        let answer = proxy_under_test.talk(socks_by_name(b"localhost", port)).await;
        assert_eq!(answer, b"\x05\0\x05\x02\0\x01\0\0\0\0\0\0");
        let [note] = &proxy_under_test.proxy.refused()[..] else {
            panic!("{:?}", proxy_under_test.proxy.refused())
        };
        assert_eq!(note.target, format!("localhost:{port}"));
        assert!(note.reason.is_some(), "{note}");
        assert_eq!(origin.connections(), 0);
    })
    .await;
}

#[tokio::test]
async fn silent_host_is_not_recorded_as_refused() {
    bounded(async {
        let origin = Origin::http().await;
        let port = origin.port();
        let proxy_under_test = TestProxy::new(&[format!("127.0.0.77:{port}")], private_settings());
        let answer =
            proxy_under_test.ask(format!("GET http://127.0.0.77:{port}/ HTTP/1.1\r\n\r\n")).await;
        let start = format!("HTTP/1.1 502 windlass: cannot connect to 127.0.0.77:{port}: ");
        assert!(answer.starts_with(&start), "{answer}");
        let address = SocketAddr::new("127.0.0.77".parse().unwrap(), port);
        let answer = proxy_under_test.talk(socks_by_address(address)).await;
        assert_eq!(answer, b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0");
        assert!(proxy_under_test.proxy.refused().is_empty());
    })
    .await;
}

#[tokio::test]
async fn every_request_is_checked() {
    bounded(async {
        let origin = Origin::http().await;
        let forbidden = Origin::http().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let (good, bad) = (origin.port(), forbidden.port());
        // Two requests in one packet: the second one must not reach the first one's host either.
        let answer = proxy_under_test
            .ask(format!(
                "GET http://localhost:{good}/ HTTP/1.1\r\n\r\nGET http://localhost:{bad}/ HTTP/1.1\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
        assert!(!answer.contains(&bad.to_string()), "{answer}");
        assert_eq!((origin.connections(), forbidden.connections()), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn malformed_list_starts_no_proxy() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = ["https://docs.rs".to_owned()];
    let error = Proxy::serve(listener, &hosts, ProxySettings::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("`https://docs.rs` is not a host for --net: "),
        "{error}"
    );
    assert!(Proxy::check(&hosts).is_err() && Proxy::check(&["docs.rs".to_owned()]).is_ok());
}

#[test]
fn without_a_runtime_there_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(Proxy::serve(listener, &[], ProxySettings::default()).is_err());
}
