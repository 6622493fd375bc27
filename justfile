# Short names for those who have `just`; everything works without it.

# Everything that must hold before a change lands.
check:
    cargo xtask test

# The tests of one crate: `just test core`.
test crate:
    cargo nextest run --package windlass-{{crate}}

# Mend what can be mended by machine.
fix:
    cargo fmt --all
    cargo xtask docs

tidy:
    cargo xtask tidy

faults *arguments:
    cargo xtask faults {{arguments}}

bench *arguments:
    cargo xtask bench {{arguments}}

# Licences, banned packages and sources; needs `cargo install cargo-deny --locked`.
deny:
    cargo deny check licenses bans sources
