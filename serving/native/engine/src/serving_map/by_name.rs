//! A map by name that is cheap to copy with one change: names are spread over shards that copies share.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

const SHARDS: usize = 256;
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a. Names come from the engine's operator, not from clients who might choose them to collide.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        Self(FNV_BASIS)
    }
}

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

type Shard<V> = HashMap<String, V, BuildHasherDefault<NameHasher>>;

/// The map. A clone costs a pointer per shard; an insertion into a clone copies one shard.
#[derive(Clone, Debug)]
pub struct ByName<V> {
    shards: Vec<Arc<Shard<V>>>,
}

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARDS] }
    }
}

impl<V: Clone> ByName<V> {
    /// What lies under a name.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.shards[shard_of(name)].get(name)
    }

    /// Puts something under a name.
    pub fn insert(&mut self, name: String, value: V) {
        Arc::make_mut(&mut self.shards[shard_of(&name)]).insert(name, value);
    }

    /// Everything.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// Everything in shards that another map does not share, and so at least all that is different there.
    pub fn values_not_shared<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a V> {
        let pairs = self.shards.iter().zip(&other.shards);
        pairs.filter(|(mine, theirs)| !Arc::ptr_eq(mine, theirs)).flat_map(|(mine, _)| mine.values())
    }
}

#[inline]
fn shard_of(name: &str) -> usize {
    let mut hasher = BuildHasherDefault::<NameHasher>::default().build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish() as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many() -> ByName<usize> {
        let mut map = ByName::default();
        for number in 0..10_000 {
            map.insert(format!("model{number:05}"), number);
        }
        map
    }

    #[test]
    fn holds_what_was_put_in() {
        let map = many();
        assert_eq!(map.get("model00042"), Some(&42));
        assert_eq!(map.get("nobody"), None);
        assert_eq!(map.values().count(), 10_000);
    }

    #[test]
    fn a_change_of_a_copy_copies_little_and_leaves_the_other_alone() {
        let before = many();
        let mut after = before.clone();
        assert_eq!(before.values_not_shared(&after).count(), 0);
        after.insert("model00042".to_owned(), 7);
        assert_eq!((before.get("model00042"), after.get("model00042")), (Some(&42), Some(&7)));
        let copied = before.values_not_shared(&after).count();
        assert!(before.values_not_shared(&after).any(|value| *value == 42));
        assert!(copied < 10_000 / 100, "{copied} of 10,000 were copied");
    }

    #[test]
    fn names_spread_evenly() {
        let map = many();
        let largest = map.shards.iter().map(|shard| shard.len()).max().unwrap_or_default();
        assert!(largest < 10_000 / SHARDS * 3, "a shard holds {largest}");
    }
}
