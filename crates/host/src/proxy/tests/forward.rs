//! Plain requests and their responses.

use std::sync::Mutex;

use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn request_and_response_pass() {
    bounded(async {
        let origin = Origin::http().await;
        let port = origin.port();
        let proxy_under_test = TestProxy::for_origin(&origin);
        let answer = proxy_under_test
            .ask(format!(
                "GET http://LOCALHOST:{port}/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: keep-alive\r\n\
                 User-Agent: me\r\n\r\n"
            ))
            .await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let sent = format!(
            "GET /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: me\r\nConnection: close\r\n\r\n"
        );
        let length = sent.len();
        assert_eq!(body, sent);
        assert_eq!(
            head,
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close")
        );
        let traffic = proxy_under_test.proxy.traffic();
        let expected = Traffic {
            connections: 1,
            sent: length as u64,
            received: answer.len() as u64,
        };
        assert_eq!(traffic, expected);
        assert!(proxy_under_test.proxy.refused().is_empty());
    })
    .await;
}

#[tokio::test]
async fn bodies_pass() {
    bounded(async {
        let origin = Origin::http().await;
        let port = origin.port();
        let proxy_under_test = TestProxy::for_origin(&origin);
        for (sent, received) in [
            (
                "Content-Length: 5\r\n\r\nhello",
                "Content-Length: 5\r\nConnection: close\r\n\r\nhello",
            ),
            (
                "Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: t\r\n\r\n",
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
        ] {
            let answer = proxy_under_test
                .ask(format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\n{sent}"))
                .await;
            assert!(answer.ends_with(received), "{answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn expect_continue_passes() {
    bounded(async {
        let origin = Origin::new(|mut stream| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await? > 0 {}
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            take(&mut stream, 5).await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await
        })
        .await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let mut client = proxy_under_test.connect().await;
        let head = format!(
            "PUT http://localhost:{}/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            origin.port()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!(take(&mut client, go_on.len()).await, go_on);
        client.write_all(b"hello").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    })
    .await;
}

#[tokio::test]
async fn early_response_reaches_the_client() {
    bounded(async {
        let origin = Origin::new(|mut stream| async move {
            take(&mut stream, 100).await;
            stream.write_all(b"HTTP/1.1 413 Too Large\r\n\r\nno").await?;
            stream.shutdown().await?;
            // It keeps the connection open without reading.
            tokio::time::sleep(TEST_TIMEOUT).await;
            Ok(())
        })
        .await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let mut client = proxy_under_test.connect().await;
        let head = format!(
            "PUT http://localhost:{}/ HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n{}",
            origin.port(),
            "a".repeat(100)
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\nno");
    })
    .await;
}

#[tokio::test]
async fn truncated_response_ends_in_a_reset() {
    bounded(async {
        let (cut, when) = oneshot::channel::<()>();
        let when = Arc::new(Mutex::new(Some(when)));
        let origin = Origin::new(move |mut stream| {
            let when = when.lock().unwrap().take();
            async move {
                read_request(&mut stream).await?;
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\npart").await?;
                drop(when.unwrap().await);
                stream.set_zero_linger()
            }
        })
        .await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let mut client = proxy_under_test.connect().await;
        let request = format!("GET http://localhost:{}/ HTTP/1.1\r\n\r\n", origin.port());
        client.write_all(request.as_bytes()).await.unwrap();
        let expected = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart";
        assert_eq!(take(&mut client, expected.len()).await, expected);
        cut.send(()).unwrap();
        let mut rest = Vec::new();
        assert!(client.read_to_end(&mut rest).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn host_without_a_response_gives_502() {
    bounded(async {
        for said in ["", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n"] {
            let origin = Origin::new(move |mut stream| async move {
                read_request(&mut stream).await?;
                stream.write_all(said.as_bytes()).await
            })
            .await;
            let proxy_under_test = TestProxy::for_origin(&origin);
            let request = format!("GET http://localhost:{}/ HTTP/1.1\r\n\r\n", origin.port());
            let answer = proxy_under_test.ask(request).await;
            assert!(answer.starts_with("HTTP/1.1 502 windlass: "), "{said:?}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn large_response_arrives_complete() {
    bounded(async {
        let body = 5_000_000;
        let origin = Origin::new(move |mut stream| async move {
            read_request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            stream.write_all(&vec![b'a'; body]).await?;
            stream.shutdown().await
        })
        .await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let request = format!("GET http://localhost:{}/ HTTP/1.1\r\n\r\n", origin.port());
        let answer = proxy_under_test.ask(request).await;
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), body);
    })
    .await;
}
