//! Equal seeds, equal demos: SplitMix64, which needs no dependency and stays the same over versions of this program.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound` - 1. The bias of a modulo does not matter here.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// An index of a list of this length.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// True in `of` out of `out_of` cases.
    pub(super) fn chance(&mut self, of: u64, out_of: u64) -> bool {
        self.below(out_of) < of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        // The reference value of SplitMix64 for seed 0: other versions of this program give the same events.
        assert_eq!(Random::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
        assert!((0..1000).filter(|_| random.chance(1, 10)).count() > 50);
    }
}
