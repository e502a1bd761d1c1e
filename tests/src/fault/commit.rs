//! When a connection is cut at a COMMIT. Pure.

/// At which moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// COMMIT never reaches the server, which rolls back.
    Before,
    /// COMMIT reaches the server, and the connection is gone before it has answered: it commits, perhaps later than the
    /// client comes back.
    During,
    /// The server has committed and said so; the answer never reaches the client.
    After,
}

/// Which COMMITs, counted from the moment of asking, over all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// The one of this number, from 1.
    Once(u64),
    /// Each that this number divides; not 0.
    Every(u64),
}

/// What is wanted, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Plan {
    wanted: Option<(Moment, Nth)>,
    seen: u64,
    cut: u64,
}

impl Plan {
    /// Counts from here on.
    pub(super) fn want(&mut self, wanted: Option<(Moment, Nth)>) {
        *self = Self { wanted, seen: 0, cut: self.cut };
    }

    /// A COMMIT goes by: whether, and when, its connection is to be cut.
    pub(super) fn next(&mut self) -> Option<Moment> {
        let (moment, nth) = self.wanted?;
        self.seen += 1;
        let hit = match nth {
            Nth::Once(number) => self.seen == number,
            Nth::Every(step) => self.seen.is_multiple_of(step),
        };
        if hit && matches!(nth, Nth::Once(_)) {
            self.wanted = None;
        }
        hit.then_some(moment)
    }

    /// A connection was cut.
    pub(super) fn done(&mut self) {
        self.cut += 1;
    }

    /// How many connections were cut at a COMMIT so far.
    pub(super) fn cut(&self) -> u64 {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_is_counted_from_the_moment_of_asking() {
        let mut plan = Plan::default();
        assert_eq!(plan.next(), None);
        plan.want(Some((Moment::After, Nth::Once(2))));
        assert_eq!([plan.next(), plan.next(), plan.next()], [None, Some(Moment::After), None]);
        plan.want(Some((Moment::Before, Nth::Every(2))));
        assert_eq!([plan.next(), plan.next(), plan.next(), plan.next()].iter().flatten().count(), 2);
        plan.want(None);
        assert_eq!(plan.next(), None);
    }
}
