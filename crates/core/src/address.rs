//! Tells public network addresses from private and special ones.
//!
//! A host name can lead to any address, so a caller that connects to names that others choose checks the address that it is going to
//! connect to. An address is public if it has no special purpose: every row of IANA's two registries is refused, also the few that are
//! reachable from everywhere. Those are anycast addresses, which lead to the nearest machine that speaks a protocol, and that machine
//! may well be one's own router.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::HostName;

/// Returns whether an address belongs to the public network.
///
/// ```
/// use windlass_core::is_public_address;
/// let is_public = |text: &str| text.parse().is_ok_and(is_public_address);
/// assert!(is_public("1.1.1.1") && !is_public("192.168.1.5") && !is_public("::1"));
/// ```
pub fn is_public_address(address: IpAddr) -> bool {
    special_purpose(address).is_none()
}

/// Returns the purpose of an address that is not public, or `None` for a public address.
///
/// ```
/// use windlass_core::special_purpose;
/// assert_eq!(special_purpose([127, 0, 0, 1].into()), Some("loopback"));
/// ```
pub fn special_purpose(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => purpose_of_v4(address),
        IpAddr::V6(address) => purpose_of_v6(address),
    }
}

/// Returns whether a host is an address that is not public, or a name of this machine. Does not look up other names.
pub(crate) fn is_private_host(host: &HostName) -> bool {
    match host {
        HostName::Address(address) => !is_public_address(*address),
        HostName::Name(_) => host.is_plain(),
    }
}

/// Looks up the special purpose of an IPv4 address.
fn purpose_of_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    SPECIAL_V4_BLOCKS.iter().find(|row| same_prefix(bits, row.0.to_bits(), row.1)).map(|row| row.2)
}

/// Looks up the special purpose of an IPv6 address. An address that contains an IPv4 address has the purpose of that address.
fn purpose_of_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(inner) = contained_ipv4(address) {
        return purpose_of_v4(inner);
    }
    let bits = address.to_bits();
    let row = SPECIAL_V6_BLOCKS.iter().find(|row| same_prefix_v6(bits, row.0.to_bits(), row.1));
    let unicast = same_prefix_v6(bits, GLOBAL_UNICAST.0.to_bits(), GLOBAL_UNICAST.1);
    row.map(|row| row.2).or((!unicast).then_some("unassigned"))
}

/// Returns the IPv4 address that is contained in an IPv6 address: NAT64 with its well-known prefix, and 6to4.
fn contained_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, fourth, fifth, sixth, high, low] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match (first, second) {
        (0x64, 0xff9b) if [third, fourth, fifth, sixth] == [0; 4] => Some(join(high, low)),
        (0x2002, _) => Some(join(second, third)),
        _ => None,
    }
}

/// Returns whether two IPv4 addresses have the same first `length` bits.
fn same_prefix(one: u32, other: u32, length: u32) -> bool {
    (one ^ other).checked_shr(u32::BITS - length).unwrap_or(0) == 0
}

/// Returns whether two IPv6 addresses have the same first `length` bits.
fn same_prefix_v6(one: u128, other: u128, length: u32) -> bool {
    (one ^ other).checked_shr(u128::BITS - length).unwrap_or(0) == 0
}

/// The special-purpose blocks of IPv4: prefix, prefix length, purpose. The first row that matches counts.
const SPECIAL_V4_BLOCKS: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::UNSPECIFIED, 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private use"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a provider's customers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    // The machine that runs this virtual machine. It answers with the certificates of the virtual machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "service of a virtual machine's host"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private use"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "AS112"),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "multicast tunnels"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relays"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private use"),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "AS112"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::BROADCAST, 32, "broadcast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// The special-purpose blocks of IPv6: prefix, prefix length, purpose. The first row that matches counts. Blocks outside of
/// [`GLOBAL_UNICAST`] are refused anyway and stand here for their names.
const SPECIAL_V6_BLOCKS: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4-mapped"),
    // Only the network itself knows at which bits of such an address the IPv4 address stands.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "local translation"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "discard"),
    (Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0), 64, "dummy"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "Teredo"),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, "benchmarks"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "AS112"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private use"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

/// The only block from which addresses are given to networks so far.
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Asserts that the first and the last address of a block are not public, and that its neighbours are, if any are given.
    fn check(block: &str, before: Option<&str>, after: Option<&str>) {
        let (first, length) = block.split_once('/').unwrap();
        let first: IpAddr = first.parse().unwrap();
        let last = last_address(first, length.parse().unwrap());
        for address in [first, last] {
            assert!(!is_public_address(address), "{address} in {block}");
        }
        for neighbour in [before, after].into_iter().flatten() {
            assert!(is_public_address(neighbour.parse().unwrap()), "{neighbour} beside {block}");
        }
    }

    /// Returns the last address of the block that begins at `first`.
    fn last_address(first: IpAddr, length: u32) -> IpAddr {
        match first {
            IpAddr::V4(first) => {
                let rest = u32::MAX.checked_shr(length).unwrap_or(0);
                Ipv4Addr::from_bits(first.to_bits() | rest).into()
            }
            IpAddr::V6(first) => {
                let rest = u128::MAX.checked_shr(length).unwrap_or(0);
                Ipv6Addr::from_bits(first.to_bits() | rest).into()
            }
        }
    }

    #[test]
    fn each_ipv4_registry_row_is_special_to_its_ends() {
        for (block, before, after) in [
            ("0.0.0.0/8", None, Some("1.0.0.0")),
            ("0.0.0.0/32", None, None),
            ("10.0.0.0/8", Some("9.255.255.255"), Some("11.0.0.0")),
            ("100.64.0.0/10", Some("100.63.255.255"), Some("100.128.0.0")),
            ("127.0.0.0/8", Some("126.255.255.255"), Some("128.0.0.0")),
            ("169.254.0.0/16", Some("169.253.255.255"), Some("169.255.0.0")),
            ("172.16.0.0/12", Some("172.15.255.255"), Some("172.32.0.0")),
            ("192.0.0.0/24", Some("191.255.255.255"), Some("192.0.1.0")),
            ("192.0.0.0/29", None, None),
            ("192.0.0.8/32", None, None),
            ("192.0.0.9/32", None, None),
            ("192.0.0.10/32", None, None),
            ("192.0.0.170/32", None, None),
            ("192.0.0.171/32", None, None),
            ("192.0.2.0/24", Some("192.0.1.255"), Some("192.0.3.0")),
            ("192.31.196.0/24", Some("192.31.195.255"), Some("192.31.197.0")),
            ("192.52.193.0/24", Some("192.52.192.255"), Some("192.52.194.0")),
            ("192.88.99.0/24", Some("192.88.98.255"), Some("192.88.100.0")),
            ("192.88.99.2/32", None, None),
            ("192.168.0.0/16", Some("192.167.255.255"), Some("192.169.0.0")),
            ("192.175.48.0/24", Some("192.175.47.255"), Some("192.175.49.0")),
            ("198.18.0.0/15", Some("198.17.255.255"), Some("198.20.0.0")),
            ("198.51.100.0/24", Some("198.51.99.255"), Some("198.51.101.0")),
            ("203.0.113.0/24", Some("203.0.112.255"), Some("203.0.114.0")),
            ("224.0.0.0/4", Some("223.255.255.255"), None),
            ("240.0.0.0/4", None, None),
            ("255.255.255.255/32", None, None),
            ("168.63.129.16/32", Some("168.63.129.15"), Some("168.63.129.17")),
        ] {
            check(block, before, after);
        }
    }

    #[test]
    fn each_ipv6_registry_row_is_special_to_its_ends() {
        for (block, before, after) in [
            ("::/128", None, None),
            ("::1/128", None, None),
            ("::/96", None, None),
            ("::ffff:0:0/96", None, None),
            ("64:ff9b:1::/48", None, None),
            ("100::/64", None, None),
            ("100:0:0:1::/64", None, None),
            ("2001::/23", Some("2000:ffff::"), Some("2001:200::")),
            ("2001::/32", None, None),
            ("2001:1::1/128", None, None),
            ("2001:1::2/128", None, None),
            ("2001:1::3/128", None, None),
            ("2001:2::/48", None, None),
            ("2001:3::/32", None, None),
            ("2001:4:112::/48", None, None),
            ("2001:10::/28", None, None),
            ("2001:20::/28", None, None),
            ("2001:30::/28", None, None),
            ("2001:db8::/32", Some("2001:db7:ffff::"), Some("2001:db9::")),
            ("2620:4f:8000::/48", Some("2620:4f:7fff::"), Some("2620:4f:8001::")),
            ("3fff::/20", Some("3ffe:ffff::"), Some("3fff:1000::")),
            ("5f00::/16", None, None),
            ("fc00::/7", None, None),
            ("fe80::/10", None, None),
            ("fec0::/10", None, None),
            ("ff00::/8", None, None),
            // Not in the registry, and not assigned.
            ("4000::/3", None, None),
            ("200::/7", None, None),
        ] {
            check(block, before, after);
        }
    }

    #[test]
    fn public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.215.14",
            "2606:4700:4700::1111",
            "2a00:1450:4001:82a::200e",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn special_addresses_have_a_purpose() {
        for (address, purpose) in [
            ("127.0.0.1", "loopback"),
            ("255.255.255.255", "broadcast"),
            ("::1", "loopback"),
            ("::127.0.0.1", "IPv4-compatible"),
            ("::ffff:8.8.8.8", "IPv4-mapped"),
            ("64:ff9b::10.0.0.1", "private use"),
            ("64:ff9b:1::808:808", "local translation"),
            ("2002:a00:1::", "private use"),
            ("2001:0:1::", "Teredo"),
            ("8000::", "unassigned"),
        ] {
            assert_eq!(special_purpose(address.parse().unwrap()), Some(purpose), "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_with_an_ipv4_address_in_it_has_its_purpose(bits: u32, rest: u128) {
            let inner = Ipv4Addr::from_bits(bits);
            let wide = u128::from(bits);
            let nat64 = Ipv6Addr::from_bits(0x0064_ff9b_u128 << 96 | wide);
            let sixtofour = Ipv6Addr::from_bits(0x2002_u128 << 112 | wide << 80 | rest >> 48);
            prop_assert_eq!(is_public_address(nat64.into()), is_public_address(inner.into()));
            prop_assert_eq!(is_public_address(sixtofour.into()), is_public_address(inner.into()));
            prop_assert!(!is_public_address(inner.to_ipv6_mapped().into()));
            prop_assert!(!is_public_address(Ipv6Addr::from_bits(wide).into()));
        }

        #[test]
        fn no_address_that_std_calls_local_is_public(bits: u32, wide: u128) {
            let (old, new) = (Ipv4Addr::from_bits(bits), Ipv6Addr::from_bits(wide));
            if old.is_loopback() || old.is_private() || old.is_link_local() || old.is_multicast()
                || old.is_documentation() || old.is_broadcast() || old.is_unspecified()
            {
                prop_assert!(!is_public_address(old.into()));
            }
            if new.is_loopback() || new.is_unique_local() || new.is_unicast_link_local()
                || new.is_multicast() || new.is_unspecified()
            {
                prop_assert!(!is_public_address(new.into()));
            }
        }
    }
}
