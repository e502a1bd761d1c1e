//! Carrying faults out. Each returns when its fault is over and what it touched works again, as far as it can see.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{Connection, Executor, PgConnection};
use tokio::time::{sleep, timeout};

use super::{
    fault::{Actor, Cut, Down, Fault, Side},
    operator,
    traffic::Reins,
    watch::{self, Look, Seen},
    world::{Copy, Primary, ROLE, TOPIC, World},
};
use crate::{
    fault::{Ending, Faults, Moment, Nth, Swallow},
    services::ServiceError,
    settlement::CONSUMER,
    workload::Random,
};

/// How long a cut waits for the next COMMIT. Where nothing is committed, nothing is cut.
const COMMIT_COMES: Duration = Duration::from_secs(3);

/// How long a host is given to join its group before it is disturbed again. A slow machine needs it, or no host would ever
/// do anything; a host that something else keeps from joining is not waited for.
const AT_WORK: Duration = Duration::from_secs(15);
/// How long the longest fault in the meantime may keep everybody from committing before it is worth a line.
const LONG: Duration = Duration::from_secs(120);

/// Who acts, and with what.
#[derive(Clone, Debug)]
pub struct Hand {
    /// What it happens to.
    pub world: Arc<World>,
    /// The producer.
    pub reins: Arc<Reins>,
    /// Where the chains stand.
    pub seen: tokio::sync::watch::Receiver<Seen>,
}

impl Hand {
    /// Injects a fault and waits until it is over.
    pub async fn inject(&self, actor: Actor, fault: &Fault) {
        let world = &self.world;
        if let Fault::ResetOffsets(_) | Fault::RecreateTopic = fault {
            let _alone = world.quiet.write().await;
            world.chronicle.begins(actor, fault);
            return operator::inject(self, fault).await;
        }
        let with_others = world.quiet.read().await;
        world.chronicle.begins(actor, fault);
        let mut back = None;
        match (actor, fault) {
            (Actor::Host(number), _) => self.host(number, fault).await,
            (Actor::Link(number), _) => self.link(number, fault).await,
            (Actor::Wire, _) => self.wire(fault).await,
            (Actor::Database, _) => back = self.database(fault).await,
            (Actor::Broker, Fault::BrokerDown { how, away }) => back = self.broker(fault, *how, *away).await,
            (Actor::Operator, Fault::AddPartition | Fault::ReplacePlugin) => operator::inject(self, fault).await,
            (Actor::Rival, _) => {
                // A database that is away refuses rivals, too.
                if let Err(error) = self.rival(fault).await {
                    world.chronicle.note(format_args!("not injected: {error}"));
                } else {
                    world.chronicle.injected(fault);
                }
            }
            _ => world.chronicle.note("nobody's fault"),
        }
        // Whoever wants to be alone need not wait for this.
        drop(with_others);
        if let Some((what, since)) = back
            && let Some(took) = self.until_commit(since).await
        {
            world.chronicle.recovered(what, took);
        }
    }

    async fn host(&self, number: usize, fault: &Fault) {
        let mut slot = self.world.hosts[number].lock().await;
        slot.start();
        if !matches!(fault, Fault::Kill { early: true, .. } | Fault::Terminate { early: true, .. }) {
            slot.until_at_work(AT_WORK).await;
        }
        let done = match fault {
            Fault::Kill { .. } => slot.kill(),
            Fault::Terminate { .. } => slot.terminate().await,
            Fault::Freeze { asleep } => match slot.process() {
                Some(process) => {
                    process.freeze();
                    sleep(*asleep).await;
                    process.thaw();
                    true
                }
                None => false,
            },
            _ => false,
        };
        if done {
            self.world.chronicle.injected(fault);
        }
        if let Fault::Kill { away, .. } | Fault::Terminate { away, .. } = fault {
            sleep(*away).await;
        }
        slot.start();
    }

    async fn link(&self, number: usize, fault: &Fault) {
        let (proxy, chronicle) = (&self.world.links[number], &self.world.chronicle);
        match fault {
            Fault::Sever(_) => {
                let ending = if number.is_multiple_of(2) { Ending::Reset } else { Ending::Close };
                // A fault per link, however many connections it had.
                if proxy.cut(ending) > 0 {
                    chronicle.injected(fault);
                }
            }
            Fault::CutCommit(cut) => {
                let before = proxy.commits_cut();
                proxy.cut_at_commit(moment(*cut), Nth::Once(1));
                let begun = Instant::now();
                while proxy.commits_cut() == before && begun.elapsed() < COMMIT_COMES {
                    sleep(Duration::from_millis(10)).await;
                }
                proxy.heal();
                chronicle.injected_times(fault, proxy.commits_cut() - before);
            }
            Fault::Delay { by, lasting, .. } => {
                proxy.set(Faults { latency: *by, ..Faults::default() });
                sleep(*lasting).await;
                proxy.heal();
                chronicle.injected(fault);
            }
            Fault::HalfOpen { lasting, .. } => {
                let swallow = [Swallow::ToServer, Swallow::ToClient, Swallow::Both][number % 3];
                proxy.set(Faults { swallow: Some(swallow), ..Faults::default() });
                sleep(*lasting).await;
                // New connections work; those that have lost bytes are left to be noticed by who has them.
                proxy.set(Faults::default());
                chronicle.injected(fault);
            }
            _ => {}
        }
    }

    async fn wire(&self, fault: &Fault) {
        let (wire, chronicle) = (&self.world.wire, &self.world.chronicle);
        match fault {
            Fault::Sever(Side::Broker) => {
                wire.cut(Ending::Reset);
            }
            Fault::Delay { by, lasting, .. } => {
                wire.set(Faults { latency: *by, ..Faults::default() });
                sleep(*lasting).await;
                wire.heal();
            }
            Fault::HalfOpen { lasting, .. } => {
                wire.set(Faults { swallow: Some(Swallow::Both), ..Faults::default() });
                sleep(*lasting).await;
                wire.set(Faults::default());
            }
            _ => return,
        }
        chronicle.injected(fault);
    }

    /// Gives what is to be measured from when on.
    async fn database(&self, fault: &Fault) -> Option<(&'static str, f64)> {
        let world = &self.world;
        let mut primary = world.primary.lock().await;
        match fault {
            Fault::DatabaseDown { how, away } => {
                tokio::task::block_in_place(|| match how {
                    Down::Stop => primary.server.stop(),
                    Down::Crash => primary.server.crash(),
                    Down::Kill => primary.server.kill(),
                });
                sleep(*away).await;
                if let Err(error) = tokio::task::block_in_place(|| primary.server.resume()) {
                    world.chronicle.found(format_args!("the database does not start again: {error}"));
                    return None;
                }
            }
            Fault::Promote { behind } => {
                let copy = match self.lagging(&primary) {
                    Ok(copy) => copy,
                    Err(error) => {
                        world.chronicle.note(format_args!("no standby: {error}"));
                        return None;
                    }
                };
                sleep(*behind).await;
                self.promote(&mut primary, copy).await;
            }
            Fault::DiskFull { lasting } => {
                let disk = primary.disk.as_ref()?;
                tokio::task::block_in_place(|| disk.fill(64));
                sleep(*lasting).await;
                disk.free();
                // A server that could not write its log gives up, and starts again once somebody starts it.
                sleep(Duration::from_millis(300)).await;
                if !primary.server.is_running()
                    && let Err(error) = tokio::task::block_in_place(|| primary.server.resume())
                {
                    world.chronicle.found(format_args!("the database does not start again: {error}"));
                    return None;
                }
            }
            _ => return None,
        }
        world.chronicle.injected(fault);
        Some(("database back → first commit, amid other faults", watch::now()))
    }

    /// A standby that has all, and receives nothing from now on.
    pub(super) fn lagging(&self, primary: &Primary) -> Result<Copy, ServiceError> {
        let copy = self.world.standby(primary)?;
        here(async {
            copy.standby.caught_up(&primary.server).await;
            copy.standby.stop_receiving().await;
        });
        Ok(copy)
    }

    /// Kills the primary and makes a standby the next one.
    pub(super) async fn promote(&self, primary: &mut Primary, copy: Copy) {
        let before: i64 = self.seen.borrow().positions.iter().sum();
        tokio::task::block_in_place(|| primary.server.kill());
        self.world.promote(primary, copy);
        let mut look = Look::new(self.world.admin.clone(), CONSUMER, TOPIC);
        if let Some(seen) = look.at(self.reins.partitions()).await {
            let lacks = before - seen.positions.iter().sum::<i64>();
            self.world.chronicle.note(format_args!("the new primary lacks about {lacks} records"));
        }
    }

    /// Waits until somebody has committed a transaction that began after this moment; says how long that took.
    /// `None` where nobody does for long.
    async fn until_commit(&self, since: f64) -> Option<Duration> {
        let begun = Instant::now();
        let mut seen = self.seen.clone();
        let committed = timeout(LONG, seen.wait_for(|seen| seen.newest() > since)).await;
        if let Ok(Ok(seen)) = committed {
            return Some(Duration::from_secs_f64((seen.newest() - since).max(0.0)).min(begun.elapsed()));
        }
        // The others' faults went on meanwhile; whether it goes on without them is asked at the walk's end.
        self.world.chronicle.note(format_args!("nothing was committed for {} s after that", LONG.as_secs()));
        None
    }

    /// Gives what is to be measured from when on.
    async fn broker(&self, fault: &Fault, how: Down, away: Duration) -> Option<(&'static str, f64)> {
        let world = &self.world;
        world.with_kafka(|kafka| if how == Down::Stop { kafka.stop() } else { kafka.kill() });
        sleep(away).await;
        // Everything else goes on, so a slow machine may not have enough time left for it at first.
        let mut tries = 0;
        while let Err(error) = world.with_kafka(crate::services::Kafka::resume) {
            tries += 1;
            if tries == 3 {
                world.chronicle.found(format_args!("the broker does not start again: {error}"));
                return None;
            }
        }
        world.chronicle.injected(fault);
        Some(("broker back → first commit, amid other faults", watch::now()))
    }

    async fn rival(&self, fault: &Fault) -> Result<(), sqlx::Error> {
        let admin = &self.world.admin;
        match fault {
            Fault::LockRows { lasting } => {
                let mut rival = PgConnection::connect(self.world.database.url()).await?;
                rival
                    .execute("BEGIN; SELECT 1 FROM settlements ORDER BY event_version DESC LIMIT 40 FOR UPDATE")
                    .await?;
                sleep(*lasting).await;
                rival.execute("ROLLBACK").await?;
            }
            Fault::Deadlock => return self.deadlock().await,
            Fault::Refuse { code, table, lasting } => {
                let arm =
                    "INSERT INTO refusals VALUES ($1, $2) ON CONFLICT (on_table) DO UPDATE SET code = excluded.code";
                sqlx::query(arm).bind(*table).bind(*code).execute(admin).await?;
                sleep(*lasting).await;
                self.until_done("DELETE FROM refusals").await;
            }
            Fault::NoConnections { lasting } => {
                admin.execute(sqlx::AssertSqlSafe(format!("ALTER ROLE {ROLE} CONNECTION LIMIT 0"))).await?;
                let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
                let ended = sqlx::query(ended).bind(ROLE).execute(admin).await;
                sleep(*lasting).await;
                self.until_done(&format!("ALTER ROLE {ROLE} CONNECTION LIMIT -1")).await;
                ended?;
            }
            Fault::Terminated | Fault::Cancelled => {
                let act = if *fault == Fault::Terminated { "pg_terminate_backend" } else { "pg_cancel_backend" };
                let one =
                    format!("SELECT {act}(pid) FROM pg_stat_activity WHERE usename = $1 ORDER BY random() LIMIT 1");
                let met = sqlx::query(sqlx::AssertSqlSafe(one)).bind(ROLE).execute(admin).await?;
                if met.rows_affected() == 0 {
                    return Err(sqlx::Error::RowNotFound);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Locks a row that is being written, waits until somebody waits for it, and wants what they have.
    async fn deadlock(&self) -> Result<(), sqlx::Error> {
        let url = self.world.database.url();
        let mut rival = PgConnection::connect(url).await?;
        // Never the victim itself: whose timer comes first is refused.
        rival.execute("BEGIN; SET LOCAL deadlock_timeout = '1h'; SET LOCAL statement_timeout = '4s'").await?;
        let mut random = Random(u64::from(std::process::id()) ^ watch::now().to_bits());
        let hot = format!("payment-{}", 6 + random.below(6));
        sqlx::query("SELECT 1 FROM settlements WHERE payment_id = $1 FOR UPDATE").bind(hot).execute(&mut rival).await?;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut rival).await?;
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND $2 = ANY (pg_blocking_pids(pid))";
        let begun = Instant::now();
        loop {
            let waiting: i64 = sqlx::query_scalar(waits).bind(ROLE).bind(pid).fetch_one(&self.world.admin).await?;
            if waiting > 0 {
                break;
            }
            if begun.elapsed() > Duration::from_secs(2) {
                rival.execute("ROLLBACK").await?;
                return Err(sqlx::Error::Protocol("nobody wanted the row".to_owned()));
            }
            sleep(Duration::from_millis(20)).await;
        }
        // The product's transactions lock their consumer's row, or a lock for it; rows below the one that they wait for
        // are theirs already.
        let rest = "SELECT 1 FROM settlements WHERE payment_id < 'payment-2' FOR UPDATE";
        let _ = rival.execute(rest).await;
        rival.execute("ROLLBACK").await?;
        Ok(())
    }

    /// Runs a statement that takes a fault away, as often as it takes: the database may be down just now.
    async fn until_done(&self, sql: &str) {
        let begun = Instant::now();
        while let Err(error) = self.world.admin.execute(sqlx::AssertSqlSafe(sql.to_owned())).await {
            if begun.elapsed() > Duration::from_secs(90) {
                return self.world.chronicle.found(format_args!("the harness cannot take a fault away: {error}"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Takes everything away that a fault may have left, and has every host run.
    pub async fn heal(&self) {
        self.world.links.iter().chain([&self.world.wire]).for_each(crate::fault::Proxy::heal);
        self.until_done(&format!("DELETE FROM refusals; ALTER ROLE {ROLE} CONNECTION LIMIT -1")).await;
        for slot in &self.world.hosts {
            slot.lock().await.start();
        }
    }
}

/// Waits for something on this thread, off the runtime's workers.
pub(super) fn here<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

fn moment(cut: Cut) -> Moment {
    match cut {
        Cut::Before => Moment::Before,
        Cut::During => Moment::During,
        Cut::After => Moment::After,
    }
}
