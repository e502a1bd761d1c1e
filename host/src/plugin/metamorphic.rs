//! The metamorphic relations of keys (Invariant 4): whatever is done to a batch that leaves each input as it is, each input
//! keeps its key. Pure: who asks the plugin, and about what, is the caller's business. One implementation for `check`, for
//! authors and for the gates.

use std::fmt;

/// What was done to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Nothing: asked a second time, in a fresh instance.
    Again,
    /// Other neighbours before and after each input: reversed, and rotated by a third.
    Permuted,
    /// Cut into two batches.
    Split,
    /// Every input twice.
    Doubled,
    /// Every input in a batch of its own: another place, other company.
    Alone,
}

impl Relation {
    /// All of them, the plainest first: a plugin that is not deterministic breaks the others too.
    pub const ALL: [Self; 5] = [Self::Again, Self::Permuted, Self::Split, Self::Doubled, Self::Alone];
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Again => "the same batch twice gave other keys",
            Self::Permuted => "keys change with a message's place in the batch",
            Self::Split => "keys change where a batch is split",
            Self::Doubled => "a message that comes twice has another key the second time",
            Self::Alone => "a message alone has another key than in company",
        })
    }
}

/// An input that did not keep its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was done.
    pub relation: Relation,
    /// The input's place in the batch.
    pub place: usize,
}

/// Gives one key per input of a batch, in order, from a fresh instance.
pub type Ask<'a, T, K, E> = dyn FnMut(&[T]) -> Result<Vec<K>, E> + 'a;

/// Asks about a batch as it is and after each relation, and answers the first input whose key is another. `ask` gives one
/// key per input, in order, from a fresh instance at each call. At most `alone` inputs are asked about alone, spread over
/// the batch, since each takes an instance.
///
/// # Errors
/// The first of `ask`.
pub fn first_violation<T: Clone, K: PartialEq, E>(
    batch: &[T],
    alone: usize,
    ask: &mut Ask<'_, T, K, E>,
) -> Result<Option<Violation>, E> {
    let keys = ask(batch)?;
    let violated = violated(batch, &keys, &Relation::ALL, alone, ask)?;
    Ok(violated.and_then(|(relation, moved)| moved.first().map(|&(place, _)| Violation { relation, place })))
}

/// As [`first_violation`], for keys that are known already and some of the relations: the relation that is violated first,
/// and each input of the batch that showed it, with the key that it has there.
///
/// # Errors
/// The first of `ask`.
#[allow(clippy::type_complexity, reason = "a relation, with places and keys")]
pub(crate) fn violated<T: Clone, K: PartialEq, E>(
    batch: &[T],
    keys: &[K],
    relations: &[Relation],
    alone: usize,
    ask: &mut Ask<'_, T, K, E>,
) -> Result<Option<(Relation, Vec<(usize, K)>)>, E> {
    for &relation in relations {
        for places in arrangements(relation, batch.len(), alone) {
            let inputs: Vec<T> = places.iter().filter_map(|&place| batch.get(place).cloned()).collect();
            let answers = places.into_iter().zip(ask(&inputs)?);
            let moved: Vec<_> = answers.filter(|(place, key)| keys.get(*place).is_some_and(|was| was != key)).collect();
            if !moved.is_empty() {
                return Ok(Some((relation, moved)));
            }
        }
    }
    Ok(None)
}

/// The batches that a relation makes of one of `len`, as places in it.
fn arrangements(relation: Relation, len: usize, alone: usize) -> Vec<Vec<usize>> {
    let all = || (0..len).collect::<Vec<_>>();
    let batches = match relation {
        Relation::Again => vec![all()],
        Relation::Permuted => {
            let mut rotated = all();
            rotated.rotate_left(len / 3);
            vec![(0..len).rev().collect(), rotated]
        }
        Relation::Split => vec![(0..len / 2).collect(), (len / 2..len).collect()],
        // The first copies in another order: the second of one comes right behind others.
        Relation::Doubled => vec![(0..len).rev().chain(0..len).collect()],
        Relation::Alone => (0..len).step_by((len / alone.max(1)).max(1)).take(alone).map(|place| vec![place]).collect(),
    };
    batches.into_iter().filter(|batch| !batch.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(keys: impl FnMut(&[u32]) -> Vec<u32>) -> Option<Relation> {
        let mut keys = keys;
        let batch: Vec<u32> = (10..20).collect();
        let found = first_violation(&batch, 4, &mut |inputs| Ok::<_, ()>(keys(inputs)));
        found.unwrap_or_default().map(|violation| violation.relation)
    }

    #[test]
    fn keys_of_the_inputs_alone_hold() {
        assert_eq!(relation(|inputs| inputs.iter().map(|input| input * 7).collect()), None);
    }

    #[test]
    fn each_relation_finds_its_own_mistake() {
        let mut calls = 0;
        let counting = |inputs: &[u32]| {
            calls += 1;
            inputs.iter().map(|_| calls).collect()
        };
        assert_eq!(relation(counting), Some(Relation::Again));
        let numbered = |inputs: &[u32]| inputs.iter().zip(0..).map(|(_, place)| place).collect();
        assert_eq!(relation(numbered), Some(Relation::Permuted));
        // The size of the batch.
        let sized = |inputs: &[u32]| inputs.iter().map(|_| u32::try_from(inputs.len()).unwrap_or(0)).collect();
        assert_eq!(relation(sized), Some(Relation::Split));
        // Whether it came before.
        let remembering = |inputs: &[u32]| {
            let seen = |place: usize| inputs[..place].contains(&inputs[place]);
            (0..inputs.len()).map(|place| inputs[place] + u32::from(seen(place))).collect()
        };
        assert_eq!(relation(remembering), Some(Relation::Doubled));
        // Whether it has company.
        let shy = |inputs: &[u32]| inputs.iter().map(|input| input + u32::from(inputs.len() == 1)).collect();
        assert_eq!(relation(shy), Some(Relation::Alone));
    }

    #[test]
    fn an_empty_batch_and_one_of_one_are_fine() {
        for batch in [&[][..], &[1u32]] {
            let found = first_violation(batch, 4, &mut |inputs: &[u32]| Ok::<_, ()>(inputs.to_vec()));
            assert_eq!(found, Ok(None));
        }
    }
}
