//! Somebody outside of the sandbox, who notices whether anybody comes.

use std::net::{TcpListener, UdpSocket};

/// Listens on one port of the loopback, for streams and for datagrams.
pub(super) struct Outsider {
    streams: TcpListener,
    datagrams: UdpSocket,
}

impl Outsider {
    pub(super) fn new() -> Self {
        loop {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            // The same port is free for datagrams too, as a rule.
            if let Ok(datagrams) = UdpSocket::bind(streams.local_addr().unwrap()) {
                streams.set_nonblocking(true).unwrap();
                datagrams.set_nonblocking(true).unwrap();
                return Self { streams, datagrams };
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.streams.local_addr().unwrap().port()
    }

    /// Whether somebody has come since it was last asked. The kernel has noted it before whoever came could go on.
    pub(super) fn was_reached(&self) -> bool {
        let streams = std::iter::from_fn(|| self.streams.accept().ok()).count();
        let datagrams = std::iter::from_fn(|| self.datagrams.recv(&mut [0; 1_500]).ok()).count();
        streams + datagrams > 0
    }
}
