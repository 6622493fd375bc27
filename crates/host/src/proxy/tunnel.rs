//! A tunnel: bytes both ways, until both sides have said all or neither says anything for too long.

use std::io;

use tokio::io::AsyncWriteExt;

use super::record::{Pulse, Way};
use super::side::{Side, pump};

/// Runs a tunnel to its end. Where one side has no more to say the other is told, and may go on.
pub(super) async fn run(mut client: Side, mut origin: Side, pulse: &Pulse<'_>) {
    let out = async {
        pump(&mut client.reader, &mut origin.writer, pulse, Way::Out).await?;
        origin.writer.shutdown().await.or(Ok::<(), io::Error>(()))
    };
    let back = async {
        pump(&mut origin.reader, &mut client.writer, pulse, Way::In).await?;
        client.writer.shutdown().await.or(Ok::<(), io::Error>(()))
    };
    let whole = tokio::select! {
        both = async { tokio::try_join!(out, back) } => both.is_ok(),
        () = pulse.stopped() => false,
    };
    if !whole {
        client.reset();
        origin.reset();
    }
}
