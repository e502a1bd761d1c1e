//! The first half of a lane, on a thread of its own: fetches, confirms, computes, hands over.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
};

use super::{
    lane::{GiveUp, Phase, Ready, Shared, retain},
    retry::Failures,
};
use crate::{
    fail_point::{FailPoint, reach},
    metrics::RetryCause,
    record::Batch,
};

/// How long a fetch waits before it looks whether the consumer is stopping. Who stops it wakes it, too.
const IDLE: Duration = Duration::from_millis(250);

/// Until the consumer drains or the second half is gone. Blocks.
pub(super) fn read(
    lane: usize,
    shared: &Shared,
    runtime: &Handle,
    out: &mpsc::Sender<Ready>,
    permits: &Arc<Semaphore>,
) {
    while shared.phase() == Phase::Running && !out.is_closed() {
        if shared.is_paused() {
            runtime.block_on(shared.resumed());
            continue;
        }
        // Invariant 11: the permit comes first, so a batch in memory always has one.
        let Ok(permit) = runtime.block_on(Arc::clone(permits).acquire_owned()) else { return };
        if shared.phase() != Phase::Running {
            return;
        }
        let fetched = shared.source.fetch(lane, &shared.limits, IDLE);
        if fetched.batch.runs.is_empty() {
            continue;
        }
        shared.health.lane_took(lane);
        reach(FailPoint::Polled);
        let ready = confirm(lane, shared, runtime, fetched.batch)
            .and_then(|batch| runtime.block_on(shared.prepare(lane, batch)));
        match ready {
            Ok(ruled) => {
                reach(FailPoint::Computed);
                if out.blocking_send(Ready { ruled, flight: fetched.flight, permit }).is_err() {
                    return;
                }
            }
            Err(GiveUp::Void) => shared.health.lane_finished(lane),
            Err(GiveUp::Aborted) => return,
            Err(GiveUp::Fatal(reason)) => {
                shared.fail(reason);
                return;
            }
        }
    }
}

/// After the fetch and before the commit: is the topic still the one that the checkpoints stand for?
fn confirm(lane: usize, shared: &Shared, runtime: &Handle, batch: Batch) -> Result<Batch, GiveUp> {
    let mut failures = Failures::default();
    while let Err(error) = shared.source.confirm(&batch) {
        shared.metrics.retried(RetryCause::Broker);
        shared.health.lane_retrying(lane, error.to_string());
        runtime.block_on(shared.pause(failures.count(false, 1)))?;
    }
    let current = |run: &_| shared.is_current(run);
    let batch = if batch.runs.iter().all(current) { batch } else { retain(&batch, current) };
    if batch.runs.is_empty() { Err(GiveUp::Void) } else { Ok(batch) }
}
