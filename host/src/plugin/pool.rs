//! Plugin work runs here: OS threads of its own, never an async worker and never where Kafka is polled.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    thread,
};

use tokio::sync::{mpsc, oneshot};

use super::PluginError;
use crate::panics;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of compute threads behind a bounded queue. Dropping it ends the threads once the queue is empty.
#[derive(Debug)]
pub struct ComputePool {
    jobs: mpsc::Sender<Job>,
}

impl ComputePool {
    /// Starts the threads. `queue` jobs may wait; who has one more waits for room.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn new(threads: usize, queue: usize) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel::<Job>(queue.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new().name(format!("compute-{number}")).spawn(move || {
                loop {
                    // One idle thread waits in the channel, the others for the lock; a job runs without it.
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
                    let Some(job) = job else { return };
                    job();
                }
            })?;
        }
        Ok(Self { jobs })
    }

    /// A thread for each of a consumer's lanes, but no more than there are cores, and one job waiting for each.
    ///
    /// # Errors
    /// See [`ComputePool::new`].
    pub fn for_lanes(lanes: usize) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(2, usize::from).min(lanes);
        Self::new(threads, threads)
    }

    /// Hands a job in, waiting for room in the queue. It runs whether or not the answer is polled; dropping the answer
    /// lets it run to its end unheard.
    ///
    /// # Errors
    /// [`PluginError::Host`] where the threads are gone.
    pub async fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Pending<T>, PluginError> {
        let (answer, pending) = oneshot::channel();
        // So that what a plugin logs says for whom.
        let span = tracing::Span::current();
        let job = Box::new(move || {
            let _entered = span.enter();
            // A panic here is a bug of the host's: it ends this job, not the thread that the other lanes need.
            let result = catch_unwind(AssertUnwindSafe(job))
                .map_err(|panic| PluginError::Host { message: panics::words(panic.as_ref()).to_owned() });
            drop(answer.send(result));
        });
        self.jobs.send(job).await.map_err(|_| threads_gone())?;
        Ok(Pending(pending))
    }
}

/// A job's answer, to be awaited.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, PluginError>>);

impl<T> Future for Pending<T> {
    type Output = Result<T, PluginError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(cx)).unwrap_or_else(|_| Err(threads_gone())))
    }
}

fn threads_gone() -> PluginError {
    PluginError::Host { message: "the compute threads are gone".to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[tokio::test]
    #[allow(clippy::panic, reason = "that is what is tested")]
    async fn a_panic_ends_its_job_and_not_the_thread() {
        let pool = ComputePool::new(1, 1).unwrap();
        let broken = pool.submit(|| -> u8 { panic!("host bug") }).await.unwrap();
        let fine = pool.submit(|| 7).await.unwrap();
        assert_eq!(broken.await, Err(PluginError::Host { message: "host bug".to_owned() }));
        assert_eq!(fine.await, Ok(7));
    }

    #[tokio::test]
    async fn a_job_runs_though_nobody_waits_for_it() {
        let pool = ComputePool::new(1, 4).unwrap();
        let (done, heard) = std::sync::mpsc::channel();
        drop(pool.submit(move || done.send(1)).await.unwrap());
        pool.submit(|| ()).await.unwrap().await.unwrap();
        assert_eq!(heard.recv(), Ok(1));
    }
}
