//! Tunnels by `CONNECT` and by SOCKS5, and their end.

use super::*;

#[tokio::test]
async fn bytes_go_both_ways_and_each_way_ends_by_itself() {
    bounded(async {
        let origin = Origin::echo().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let port = origin.port();
        let success = b"\x05\0\x05\0\0\x01\0\0\0\0\0\0";
        let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
        for (request, expected) in [
            (
                format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\n").into(),
                &established[..],
            ),
            (format!("CONNECT 127.0.0.1:{port} HTTP/1.0\r\n\r\n").into(), &established[..]),
            (socks_by_name(b"localhost", port), &success[..]),
            (socks_by_name(b"LocalHost.", port), &success[..]),
            (socks_by_name(b"127.0.0.1", port), &success[..]),
            (socks_by_address(origin.address), &success[..]),
        ] {
            let mut client = proxy_under_test.connect().await;
            // The first bytes for the host are in the same packet as the request.
            client.write_all(&[&request[..], b"early "].concat()).await.unwrap();
            assert_eq!(take(&mut client, expected.len()).await, expected);
            assert_eq!(take(&mut client, 6).await, b"early ");
            client.write_all(b"late").await.unwrap();
            client.shutdown().await.unwrap();
            let mut rest = String::new();
            client.read_to_string(&mut rest).await.unwrap();
            assert_eq!(rest, "late");
        }
        assert_eq!(
            proxy_under_test.proxy.traffic(),
            Traffic { connections: 6, sent: 60, received: 60 }
        );
    })
    .await;
}

#[tokio::test]
async fn host_may_end_first() {
    bounded(async {
        let origin = Origin::new(|mut stream| async move {
            stream.write_all(b"hello").await?;
            stream.shutdown().await?;
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await?;
            assert_eq!(heard, "still here");
            Ok(())
        })
        .await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let mut client = proxy_under_test.tunnel(&format!("localhost:{}", origin.port())).await;
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
        client.write_all(b"still here").await.unwrap();
        drop(client);
        while proxy_under_test.proxy.traffic().sent < 10 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn large_streams_pass_both_ways_at_once() {
    bounded(async {
        let origin = Origin::echo().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let client = proxy_under_test.tunnel(&format!("localhost:{}", origin.port())).await;
        let sent: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let (mut reader, mut writer) = client.into_split();
        let mut received = Vec::new();
        let send = async {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let receive = reader.read_to_end(&mut received);
        let ((), read) = tokio::join!(send, receive);
        assert_eq!(read.unwrap(), sent.len());
        assert!(received == sent);
    })
    .await;
}

#[tokio::test]
async fn idle_tunnel_is_closed() {
    bounded(async {
        let origin = Origin::echo().await;
        let settings =
            ProxySettings { idle_time: Duration::from_millis(100), ..private_settings() };
        let proxy_under_test = TestProxy::for_origin_with(&origin, settings);
        let mut client = proxy_under_test.tunnel(&format!("localhost:{}", origin.port())).await;
        closed(&mut client).await;
        // The same for a host that does not answer a plain request.
        let silent = Origin::new(|stream| async move {
            tokio::time::sleep(TEST_TIMEOUT).await;
            drop(stream);
            Ok(())
        })
        .await;
        let settings =
            ProxySettings { idle_time: Duration::from_millis(100), ..private_settings() };
        let proxy_under_test = TestProxy::for_origin_with(&silent, settings);
        let mut client = proxy_under_test.connect().await;
        let request = format!("GET http://localhost:{}/ HTTP/1.1\r\n\r\n", silent.port());
        client.write_all(request.as_bytes()).await.unwrap();
        closed(&mut client).await;
    })
    .await;
}

#[tokio::test]
async fn no_more_connections_at_once_than_allowed() {
    bounded(async {
        let origin = Origin::echo().await;
        let settings = ProxySettings { max_connections: 3, ..private_settings() };
        let proxy_under_test = TestProxy::for_origin_with(&origin, settings);
        let address = proxy_under_test.address;
        let request = format!("CONNECT localhost:{} HTTP/1.1\r\n\r\nhello", origin.port());
        let mut clients = JoinSet::new();
        for _ in 0..20 {
            let request = request.clone();
            clients.spawn(async move {
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(request.as_bytes()).await.unwrap();
                client.shutdown().await.unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.unwrap();
                answer
            });
        }
        for answer in clients.join_all().await {
            assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
        }
        assert_eq!(origin.connections(), 20);
        let peak = origin.seen.peak.load(Ordering::SeqCst);
        assert!(peak <= 3, "{peak}");
    })
    .await;
}

#[tokio::test]
async fn dropping_the_proxy_ends_all_connections() {
    bounded(async {
        let origin = Origin::echo().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let mut tunnel = proxy_under_test.tunnel(&format!("localhost:{}", origin.port())).await;
        let mut silent = proxy_under_test.connect().await;
        let mut slow = proxy_under_test.connect().await;
        slow.write_all(b"GET http://").await.unwrap();
        let address = proxy_under_test.address;
        drop(proxy_under_test);
        for stream in [&mut tunnel, &mut silent, &mut slow] {
            closed(stream).await;
        }
        while origin.seen.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[test]
fn proxy_may_be_dropped_outside_of_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let proxy_under_test =
        runtime.block_on(async { TestProxy::new(&[], ProxySettings::default()) });
    let address = proxy_under_test.address;
    drop(proxy_under_test);
    runtime.block_on(bounded(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }));
}
