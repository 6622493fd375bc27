//! Budgets of a session that the host measures: network bytes of programs.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use serde_json::json;
use windlass::process::{Confinement, NetworkAccess, ProcessSettings};
use windlass::session::{Budget, SessionId};
use windlass::{CallResult, Mode, Outcome, Session, ToolCall};

use crate::support::{TestWorkspace, text};

/// Starts a server on the loopback interface that answers every connection with so many bytes. Returns its port.
fn start_server(bytes: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut asked = [0; 4];
                // A client whose connection is cut off sends no request.
                drop(stream.read_exact(&mut asked));
                drop(stream.write_all(&vec![b'x'; bytes]));
            });
        }
    });
    port
}

/// Returns a script that requests the server through the proxy so many times and prints the number of bytes received.
fn request_script(port: u16, times: usize) -> String {
    let ask = format!(
        "proxy=${{https_proxy##*:}}; exec 3<>/dev/tcp/127.0.0.1/${{proxy%/}}; printf 'CONNECT localhost:{port} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3; \
         read -r status <&3; echo \"$status\"; printf ping >&3; cat <&3 2>/dev/null | wc -c; exec 3<&-"
    );
    vec![ask; times].join("; ")
}

struct BudgetTest {
    test: TestWorkspace,
    session: Arc<Session>,
    port: u16,
}

impl BudgetTest {
    fn new(budget: Option<u64>, answer: usize) -> Self {
        let port = start_server(answer);
        let network = NetworkAccess::Hosts(vec![format!("localhost:{port}")]);
        let settings = ProcessSettings {
            confinement: Confinement { network, ..Confinement::default() },
            private_hosts: true,
            ..ProcessSettings::default()
        };
        let test = TestWorkspace::with_builder(&[], |builder| {
            builder.mode(Mode::Yolo).processes(settings)
        });
        let budget = Budget { network_bytes: budget, ..Budget::default() };
        let session = Arc::new(Session::new(SessionId::new("s1")).with_budget(budget));
        Self { test, session, port }
    }

    async fn ask(&self, times: usize) -> CallResult {
        let call = ToolCall::new("bash", json!({"command": request_script(self.port, times)}));
        self.test.windlass.call(&self.session, call).await
    }
}

#[tokio::test]
async fn bytes_through_the_proxy_are_spent() {
    let budget_test = BudgetTest::new(Some(1_000_000), 100_000);
    let result = budget_test.ask(1).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    let spent = budget_test.session.spent().network_bytes;
    assert!((100_000..110_000).contains(&spent), "{spent}: {}", text(&result));
    budget_test.ask(1).await;
    assert!(budget_test.session.spent().network_bytes >= 2 * 100_000);
}

#[tokio::test]
async fn a_session_over_its_budget_gets_no_more() {
    const ANSWER: usize = 50_000_000;
    let budget_test = BudgetTest::new(Some(200_000), ANSWER);
    // The first connection is cut off, and the second one is refused.
    let result = budget_test.ask(2).await;
    let said = text(&result);
    let spent = budget_test.session.spent().network_bytes;
    assert!((200_000..1_000_000).contains(&spent), "{spent}: {said}");
    assert!(said.contains("may move no more bytes over the network"), "{said}");
    assert!(said.contains(" 200 ") && said.contains(" 403 "), "{said}");
    // The next call is refused, too.
    let result = budget_test.ask(1).await;
    assert_eq!(result.code, Some("busy"), "{}", text(&result));
    assert!(text(&result).contains("bytes over the network"), "{}", text(&result));
}
