//! Recognises the messages of programs that could not reach a host.

/// Phrases in lower case that name a failure of the network.
const PHRASES: &[&str] = &[
    "could not resolve",
    "couldn't resolve",
    "unable to resolve host",
    "network is unreachable",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "failure in name resolution",
    "failed to lookup address",
    "no address associated with hostname",
    "no such host",
    "dns error",
    "eai_again",
    "enetunreach",
    "getaddrinfo enotfound",
];

/// Returns whether a text reports that a host could not be reached.
pub(super) fn is_missed(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase)) || text.lines().any(is_refused)
}

/// A refused connection to another machine. On the loopback interface it means that no server runs there.
fn is_refused(line: &str) -> bool {
    let is_address_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut words = line.split(|c: char| !is_address_part(c));
    let is_other_machine = |word: &str| {
        let address = word.trim_matches('.').parse::<std::net::Ipv4Addr>();
        address.is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
    };
    line.contains("connection refused") && words.any(is_other_machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_the_network() {
        for (text, expected) in [
            ("curl: (6) Could not resolve host: example.org", true),
            ("fatal: unable to access 'https://x/': Could not resolve host: x", true),
            ("ping: connect: Network is unreachable", true),
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution", true),
            ("npm error code EAI_AGAIN", true),
            ("dial tcp: lookup proxy.golang.org: no such host", true),
            ("connect to 10.0.0.7 port 80: Connection refused", true),
            ("connect to 127.0.0.1 port 80: Connection refused", false),
            ("redis: Connection refused", false),
            ("version 1.2.3.4 of the network was built", false),
            ("cat: x: No such file or directory", false),
            ("FileNotFoundError: [Errno 2] No such file or directory", false),
            ("Error: getaddrinfo ENOTFOUND example.org", true),
        ] {
            assert_eq!(is_missed(text), expected, "{text}");
        }
    }
}
