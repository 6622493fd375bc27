//! The variables by which programs find a proxy. Each is here because some widespread program reads it.
//!
//! `curl` and what is built on it (git, cargo) read `http_proxy` in lower case alone, others in upper case first; Go, pip, npm and
//! wget read these too. Node's own `fetch` reads them only if it is told to, Yarn from version 2 on has variables of its own.

/// The port is one of the program's own loopback.
pub(super) fn variables(port: u16) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let here = NAMES.iter().map(|name| (*name, proxy.as_str()));
    let all = here.chain(FIXED.iter().copied());
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Those that name the proxy.
///
/// `ALL_PROXY` could offer SOCKS, which we speak; but Python's `httpx` ends at its start where that variable says so and its
/// optional support is not installed, and no program is known that would need it for hosts of the web.
const NAMES: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
];

/// A program's servers on its own loopback are nobody else's: it reaches them without us, and could not through us.
const OWN: &str = "localhost,127.0.0.1,::1";

const FIXED: &[(&str, &str)] = &[("NO_PROXY", OWN), ("no_proxy", OWN), ("NODE_USE_ENV_PROXY", "1")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_stands_once_and_leads_to_the_port() {
        let variables = variables(4711);
        for (name, value) in &variables {
            assert_eq!(variables.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
            let proxy = name.to_ascii_lowercase().ends_with("_proxy")
                && !["NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"].contains(&name.as_str());
            assert_eq!(value == "http://127.0.0.1:4711", proxy, "{name}={value}");
        }
    }
}
