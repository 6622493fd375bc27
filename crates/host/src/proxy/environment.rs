//! Environment variables by which programs find a proxy. Each is read by some widespread program.
//!
//! `curl` and programs built on it (git, cargo) read only the lower-case `http_proxy`, others read upper case first; Go, pip, npm and wget
//! read these too. Node's own `fetch` reads them only with an extra variable, and Yarn has variables of its own since version 2.

use super::rules::HostRules;

/// Returns the variables for a proxy at a port of the program's own loopback interface. `granted` are the hosts that the program may reach.
pub(super) fn variables(port: u16, granted: &[String]) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let own = own_hosts(granted).join(",");
    let here = PROXY_VARIABLES.iter().map(|name| (*name, proxy.as_str()));
    let around = ["NO_PROXY", "no_proxy"].map(|name| (name, own.as_str()));
    let all = here.chain(around).chain([("NODE_USE_ENV_PROXY", "1")]);
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the names of the program's own loopback interface, without those that are granted on the machine's: `NO_PROXY` has no ports
/// that all programs understand, so a granted name goes through the proxy with all of its ports.
fn own_hosts(granted: &[String]) -> Vec<&'static str> {
    // A list that cannot be parsed starts no proxy.
    let granted = HostRules::parse(granted).ok();
    let is_granted = |own: &str| granted.as_ref().is_some_and(|rules| rules.names_host_text(own));
    OWN_HOSTS.iter().copied().filter(|own| !is_granted(own)).collect()
}

/// Variables that name the proxy.
///
/// `ALL_PROXY` could offer SOCKS, which the proxy speaks. But Python's `httpx` fails at its start with such a value if its optional support
/// is not installed, and no program is known that needs it for hosts of the web.
const PROXY_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
];

/// Hosts that programs reach without the proxy: servers on their own loopback interface, which the proxy could not reach.
const OWN_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_set_once_and_names_the_port() {
        let variables = variables(4711, &[]);
        for (name, value) in &variables {
            assert_eq!(variables.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
            let proxy = name.to_ascii_lowercase().ends_with("_proxy")
                && !["NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"].contains(&name.as_str());
            assert_eq!(value == "http://127.0.0.1:4711", proxy, "{name}={value}");
        }
    }
    #[test]
    fn granted_loopback_hosts_go_through_the_proxy() {
        for (granted, expected) in [
            (&["docs.rs", "*.localhost"][..], "localhost,127.0.0.1,::1"),
            (&["docs.rs", "127.0.0.1:18081"], "localhost,::1"),
            (&["localhost", "[::1]:80"], "127.0.0.1"),
            (&["LOCALHOST:1", "127.0.0.1", "::1"], ""),
        ] {
            let granted: Vec<String> = granted.iter().map(|host| (*host).to_owned()).collect();
            for (name, value) in variables(4711, &granted) {
                if name.eq_ignore_ascii_case("no_proxy") {
                    assert_eq!(value, expected, "{granted:?}");
                }
            }
        }
    }
}
