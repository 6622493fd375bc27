//! A server outside of the sandbox that notices connections and datagrams.

use std::net::{TcpListener, UdpSocket};

/// A TCP and a UDP socket on the same port of the loopback interface.
pub(super) struct OutsideServer {
    streams: TcpListener,
    datagrams: UdpSocket,
}

impl OutsideServer {
    pub(super) fn new() -> Self {
        loop {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            // The same port is usually free for datagrams too.
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

    /// Returns whether a connection or a datagram has arrived since the last call. The kernel has queued it before the sender continues.
    pub(super) fn was_reached(&self) -> bool {
        let streams = std::iter::from_fn(|| self.streams.accept().ok()).count();
        let datagrams = std::iter::from_fn(|| self.datagrams.recv(&mut [0; 1_500]).ok()).count();
        streams + datagrams > 0
    }
}
