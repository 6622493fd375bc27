//! Environment variables by which programs find a proxy. Each is read by some widespread program.
//!
//! `curl` and programs built on it (git, cargo) read only the lower-case `http_proxy`, others read upper case first; Go, pip, npm and wget
//! read these too. Node's own `fetch` reads them only with an extra variable, and Yarn has variables of its own since version 2.

/// Returns the variables for a proxy at a port of the program's own loopback interface.
pub(super) fn variables(port: u16) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let here = PROXY_VARIABLES.iter().map(|name| (*name, proxy.as_str()));
    let all = here.chain(FIXED_VARIABLES.iter().copied());
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
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
const OWN_HOSTS: &str = "localhost,127.0.0.1,::1";

/// Variables with a fixed value.
const FIXED_VARIABLES: &[(&str, &str)] =
    &[("NO_PROXY", OWN_HOSTS), ("no_proxy", OWN_HOSTS), ("NODE_USE_ENV_PROXY", "1")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_set_once_and_names_the_port() {
        let variables = variables(4711);
        for (name, value) in &variables {
            assert_eq!(variables.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
            let proxy = name.to_ascii_lowercase().ends_with("_proxy")
                && !["NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"].contains(&name.as_str());
            assert_eq!(value == "http://127.0.0.1:4711", proxy, "{name}={value}");
        }
    }
}
