//! The proxy with a real client: `curl`, on which cargo and git are built. `cargo xtask test` installs it.

use std::process::{Command, Output};

use super::*;

/// Runs `curl` with the variables of a proxy.
async fn curl(proxy_under_test: &TestProxy, arguments: &[&str]) -> Output {
    curl_granted(proxy_under_test, &[], arguments).await
}

/// Runs curl with the variables of a program that may reach these hosts.
async fn curl_granted(
    proxy_under_test: &TestProxy,
    granted: &[String],
    arguments: &[&str],
) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20"]).args(arguments);
    let environment = Proxy::environment(proxy_under_test.address.port(), granted);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(environment);
    let run = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    run.expect("curl is installed: `cargo xtask setup` sees to it")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn curl_reaches_allowed_hosts_in_each_way() {
    bounded(async {
        let origin = Origin::http().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let address = format!("http://localhost:{}/path", origin.port());
        let proxy = format!("http://{}", proxy_under_test.address);
        let socks = format!("socks5h://{}", proxy_under_test.address);
        for arguments in [
            &["--noproxy", "", "--proxy", &proxy, &address][..],
            &["--noproxy", "", "--proxy", &proxy, "--proxytunnel", &address],
            &["--noproxy", "", "--proxy", &socks, &address],
            &["--noproxy", "", "--proxy", &proxy, "--data", "x=y", &address],
            &[
                "--noproxy",
                "",
                "--proxy",
                &proxy,
                "-H",
                "Transfer-Encoding: chunked",
                "--data",
                "x=y",
                &address,
            ],
        ] {
            let output = curl(&proxy_under_test, arguments).await;
            let got = text(&output.stdout);
            assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
            assert!(got.contains(" /path HTTP/1.1\r\nHost: localhost:"), "{arguments:?}: {got}");
        }
        assert_eq!(proxy_under_test.proxy.traffic().connections, 5);
    })
    .await;
}

#[tokio::test]
async fn curl_finds_the_proxy_by_its_variables() {
    bounded(async {
        let origin = Origin::http().await;
        let proxy_under_test = TestProxy::for_origin(&origin);
        let plain = curl(&proxy_under_test, &["http://evil.example/"]).await;
        assert!(text(&plain.stdout).starts_with("windlass: host evil.example is not among those"));
        let tunnelled = curl(&proxy_under_test, &["-v", "https://evil.example/"]).await;
        assert!(!tunnelled.status.success());
        let shown = text(&tunnelled.stderr);
        assert!(shown.contains("403 windlass: host evil.example is not among"), "{shown}");
        let refused = proxy_under_test.proxy.refused();
        let hosts: Vec<&str> = refused.iter().map(|one| &*one.target).collect();
        assert_eq!(hosts, ["evil.example:80", "evil.example:443"]);
        // It reaches servers on its own loopback interface without the proxy.
        let own =
            curl(&proxy_under_test, &[&format!("http://127.0.0.1:{}/own", origin.port())]).await;
        assert!(text(&own.stdout).starts_with("GET /own HTTP/1.1\r\n"));
        assert_eq!(proxy_under_test.proxy.traffic().connections, 0);
        // One that is granted is the machine's.
        let address = format!("127.0.0.1:{}", origin.port());
        let url = format!("http://{address}/granted");
        let granted = curl_granted(&proxy_under_test, &[address], &[&url]).await;
        assert!(text(&granted.stdout).starts_with("GET /granted HTTP/1.1\r\n"), "{granted:?}");
        assert_eq!(proxy_under_test.proxy.traffic().connections, 1);
    })
    .await;
}
