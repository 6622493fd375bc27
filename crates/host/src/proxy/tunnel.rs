//! A tunnel: copies bytes both ways until both sides have ended, or nothing moves for too long.

use std::io;

use tokio::io::AsyncWriteExt;

use super::record::{Direction, TrafficMonitor};
use super::side::{ConnectionSide, copy_bytes};

/// Runs a tunnel to its end. When one side ends its stream, the other one is told so and may continue to send. Resets both if anything
/// fails.
pub(super) async fn run(
    mut client: ConnectionSide,
    mut origin: ConnectionSide,
    monitor: &TrafficMonitor<'_>,
) {
    let out = async {
        copy_bytes(&mut client.reader, &mut origin.writer, monitor, Direction::Out).await?;
        origin.writer.shutdown().await.or(Ok::<(), io::Error>(()))
    };
    let back = async {
        copy_bytes(&mut origin.reader, &mut client.writer, monitor, Direction::In).await?;
        client.writer.shutdown().await.or(Ok::<(), io::Error>(()))
    };
    let whole = tokio::select! {
        both = async { tokio::try_join!(out, back) } => both.is_ok(),
        () = monitor.idle_or_over_budget() => false,
    };
    if !whole {
        client.reset();
        origin.reset();
    }
}
