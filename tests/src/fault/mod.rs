//! Faults of the world around a host, each of which a test can switch on and off: a proxy that cuts, swallows, slows and
//! cuts at COMMIT; a standby that lags and is promoted; a disk that is full; a rival session that provokes what databases
//! refuse. Servers that are killed and started again are in [`crate::services`]; what happens to topics and groups is in
//! [`crate::Broker`].

mod commit;
mod disk;
mod frames;
mod proxy;
mod relay;
mod rival;
mod standby;

pub use commit::{Moment, Nth};
pub use disk::SmallDisk;
pub use proxy::{Ending, Faults, Link, Proxy, Swallow};
pub use rival::{Crowd, Provoked, Rival};
pub use standby::Standby;
