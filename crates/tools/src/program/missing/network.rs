//! Recognizes messages of programs that could not reach a host, and the hosts in them. It works on text only.

use std::net::Ipv4Addr;

/// Phrases in lower case that name a failure of the network.
const NETWORK_PHRASES: &[&str] = &[
    "could not resolve",
    "couldn't resolve",
    "unable to resolve host",
    "failed to resolve",
    "network is unreachable",
    "network unreachable",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "failure in name resolution",
    "failed to lookup address",
    "no address associated with hostname",
    "no servers could be reached",
    "no such host",
    "unknownhostexception",
    "bad address '",
    "dns error",
    "eai_again",
    "enetunreach",
    "getaddrinfo enotfound",
    "getaddrinfo failed",
];

/// Words in lower case behind which such a message names the host.
const BEFORE_HOST: &[&str] = &[
    "://",
    "resolve host:",
    "resolve hostname",
    "resolve host address",
    "resolve",
    "resolving",
    "host=",
    "for host",
    "lookup",
    "enotfound",
    "eai_again",
    "unknownhostexception:",
    "bad address",
    "connect to",
];

/// Programs that may print nothing, with the exit codes that mean an unreachable host.
const SILENT_EXIT_CODES: &[(&str, &[i32])] = &[("curl", &[6, 7]), ("wget", &[4])];

/// Limit of hosts in one note.
const MAX_HOSTS: usize = 3;

/// Returns the hosts that a command could not reach, as far as they are known; `None` if nothing indicates a network failure.
pub(super) fn missed_hosts(
    text: &str,
    command: &str,
    exit_code: Option<i32>,
) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    let mut is_missed = false;
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let phrase = NETWORK_PHRASES.iter().find_map(|phrase| lower.find(phrase));
        if phrase.is_some() || is_refused(&lower) {
            is_missed = true;
            add_named(&mut hosts, &lower, phrase);
        }
    }
    let is_silent = text.trim().is_empty() && ended_silently(command, exit_code);
    if hosts.is_empty() && (is_missed || is_silent) {
        add_of_urls(&mut hosts, &command.to_ascii_lowercase());
        is_missed |= !hosts.is_empty();
    }
    hosts.truncate(MAX_HOSTS);
    is_missed.then_some(hosts)
}

/// Returns whether a line reports a failed connection to another machine. On the loopback it means that no server runs there.
fn is_refused(line: &str) -> bool {
    let has_failed =
        ["connection refused", "couldn't connect to server", "could not connect to server"];
    has_failed.iter().any(|words| line.contains(words)) && {
        let is_address_part = |c: char| c.is_ascii_digit() || c == '.';
        let mut words = line.split(|c: char| !is_address_part(c));
        words.any(|word| word.trim_matches('.').parse().is_ok_and(is_other_machine))
    }
}

/// Returns whether an address is neither loopback nor unspecified.
fn is_other_machine(address: Ipv4Addr) -> bool {
    !address.is_loopback() && !address.is_unspecified()
}

/// Returns whether the exit code of a silent program in the command means an unreachable host.
fn ended_silently(command: &str, exit_code: Option<i32>) -> bool {
    let mut words =
        command.split(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '('));
    words.any(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        let known = SILENT_EXIT_CODES.iter().find(|(program, _)| *program == name);
        known.is_some_and(|(_, codes)| exit_code.is_some_and(|code| codes.contains(&code)))
    })
}

/// Adds the hosts that a message names. `phrase` is the index of the failure phrase: `ping: HOST: name or service not known`.
fn add_named(hosts: &mut Vec<String>, line: &str, phrase: Option<usize>) {
    for words in BEFORE_HOST {
        for (at, found) in line.match_indices(words) {
            add_host(hosts, line.get(at + found.len()..).unwrap_or_default());
        }
    }
    let before = phrase.and_then(|at| line.get(..at)?.trim_end().strip_suffix(':'));
    if let Some((program, host)) = before.and_then(|before| before.rsplit_once(": "))
        && !program.contains(' ')
    {
        add_host(hosts, host);
    }
}

/// Adds the hosts of all URLs in a command.
fn add_of_urls(hosts: &mut Vec<String>, command: &str) {
    for (at, found) in command.match_indices("://") {
        add_host(hosts, command.get(at + found.len()..).unwrap_or_default());
    }
}

/// Adds the host at the beginning of a text, if there is one.
fn add_host(hosts: &mut Vec<String>, text: &str) {
    let text = text.trim_start_matches([' ', '\'', '"', '`', '‘', '(', '[']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.:@".contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host).trim_end_matches([':', '.']);
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    let port = if matches!(port, "" | "80" | "443") { String::new() } else { format!(":{port}") };
    let host = format!("{host}{port}");
    if is_host(&host) && !hosts.contains(&host) {
        hosts.push(host);
    }
}

/// Returns whether a text names another machine: an address, or a name of at least two parts whose last has only letters.
fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "1"));
    if port.parse::<u16>().is_err() {
        return false;
    }
    if let Ok(address) = host.parse() {
        return is_other_machine(address);
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.len() < 64 && !label.starts_with('-') && !label.ends_with('-')
    };
    let has_only_letters =
        |label: &str| label.len() > 1 && label.chars().all(|c| c.is_ascii_alphabetic());
    let top = host.rsplit_once('.').map(|(_, top)| top);
    host.len() < 254
        && host.split('.').all(is_label)
        && top.is_some_and(|top| has_only_letters(top) || top.starts_with("xn--"))
        && !host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, command: &str, exit_code: i32, expected: Option<&[&str]>) {
        let expected = expected.map(|hosts| hosts.iter().map(ToString::to_string).collect());
        assert_eq!(missed_hosts(text, command, Some(exit_code)), expected, "{command}: {text}");
    }

    #[test]
    fn network_failures_name_hosts() {
        for (text, expected) in [
            ("curl: (6) Could not resolve host: example.org", Some(&["example.org"][..])),
            (
                "fatal: unable to access 'https://github.com/x/y/': Could not resolve host: github.com",
                Some(&["github.com"]),
            ),
            ("ping: connect: Network is unreachable", Some(&[])),
            ("ping: docs.rs: Name or service not known", Some(&["docs.rs"])),
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution", Some(&[])),
            (
                "npm error code EAI_AGAIN\nnpm error request to https://npm.example.net/x failed, reason: getaddrinfo EAI_AGAIN npm.example.net",
                Some(&["npm.example.net"]),
            ),
            ("dial tcp: lookup proxy.golang.org: no such host", Some(&["proxy.golang.org"])),
            (
                "dial tcp: lookup proxy.golang.org on 10.0.0.2:53: dial udp 10.0.0.2:53: connect: network is unreachable",
                Some(&["proxy.golang.org"]),
            ),
            ("wget: unable to resolve host address ‘example.org’", Some(&["example.org"])),
            ("wget: bad address 'example.org'", Some(&["example.org"])),
            (
                "ssh: Could not resolve hostname github.com: Temporary failure in name resolution",
                Some(&["github.com"]),
            ),
            (
                "HTTPSConnectionPool(host='python.example.net', port=443): Max retries exceeded (Caused by NameResolutionError(\"Failed to resolve 'python.example.net' ([Errno -3] Temporary failure in name resolution)\"))",
                Some(&["python.example.net"]),
            ),
            (
                "error: download failed for https://index.example.net:443/config.json: [6] Could not resolve hostname",
                Some(&["index.example.net"]),
            ),
            (
                "W: Failed to fetch http://deb.example.net/x  Temporary failure resolving 'deb.example.net'",
                Some(&["deb.example.net"]),
            ),
            (
                "java.net.UnknownHostException: repo.maven.apache.org",
                Some(&["repo.maven.apache.org"]),
            ),
            (";; connection timed out; no servers could be reached", Some(&[])),
            ("connect to 10.0.0.7 port 80: Connection refused", Some(&["10.0.0.7"])),
            (
                "curl: (7) Failed to connect to 1.1.1.1 port 80 after 0 ms: Couldn't connect to server",
                Some(&["1.1.1.1"]),
            ),
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server",
                None,
            ),
            ("connect to 127.0.0.1 port 80: Connection refused", None),
            ("redis: Connection refused", None),
            ("version 1.2.3.4 of the network was built", None),
            ("cat: x: No such file or directory", None),
            ("FileNotFoundError: [Errno 2] No such file or directory", None),
            ("Error: getaddrinfo ENOTFOUND example.org", Some(&["example.org"])),
            ("could not resolve host: http://a.b.example:8080/x", Some(&["a.b.example:8080"])),
            ("could not resolve 'thing'; see README.2", Some(&[])),
        ] {
            check(text, "x", 1, expected);
        }
    }

    #[test]
    fn hosts_are_taken_from_the_command() {
        for (text, command, exit_code, expected) in [
            (
                "Network is unreachable",
                "x https://docs.rs/a http://user@b.example:99/",
                1,
                Some(&["docs.rs", "b.example:99"][..]),
            ),
            ("", "curl -s https://docs.rs/x", 6, Some(&["docs.rs"])),
            ("", "/usr/bin/curl -s https://docs.rs/x", 7, Some(&["docs.rs"])),
            ("", "cd x && wget -q http://docs.rs", 4, Some(&["docs.rs"])),
            ("", "curl -s http://localhost:80", 7, None),
            ("", "curl -s https://docs.rs/x", 22, None),
            ("", "curl -s \"$URL\"", 6, None),
            ("done", "curl -s https://docs.rs/x; exit 6", 6, None),
            ("", "true https://docs.rs", 6, None),
        ] {
            check(text, command, exit_code, expected);
        }
        let four = "could not resolve host: a.aa\ncould not resolve host: b.bb\ncould not resolve host: c.cc\ncould not resolve host: d.dd";
        check(four, "x", 1, Some(&["a.aa", "b.bb", "c.cc"]));
    }
}
