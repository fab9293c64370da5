//! Which model is on which nodes: a table that is swapped whole, and what is counted of each model.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use tidegate_codec::status::{Code, Status};

use crate::copy::ModelCopy;
use crate::links::connect::Links;
use crate::links::tls::Protocol;
use crate::node::{Addresses, Node};

/// What is counted of a model, for as long as it is known.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that named it.
    pub requests: AtomicU64,
    /// Those that were not answered with success.
    pub errors: AtomicU64,
    /// Those that were tried on a second node, because the first one did not answer them.
    pub retried: AtomicU64,
    /// Those of which a second copy went to another node.
    pub hedged: AtomicU64,
    /// When the last one came, in milliseconds since 1970.
    last_used: AtomicU64,
}

impl Counts {
    /// A request came.
    pub fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_used.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// A request was answered with this code. A client that went away is no error.
    pub fn end(&self, code: Code) {
        if !matches!(code, Code::Ok | Code::Cancelled) {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// When the last request came, in seconds since 1970; 0 where none did.
    pub fn last_used(&self) -> f64 {
        self.last_used.load(Ordering::Relaxed) as f64 / 1000.0
    }
}

/// A model that is known.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Where it is; nowhere for one that is to be loaded when it is asked.
    pub copies: Vec<Arc<ModelCopy>>,
    /// What is counted of it.
    pub counts: Arc<Counts>,
    /// Whether somebody was told that it is wanted.
    wanted: Arc<AtomicBool>,
}

/// The whole table. The default is that of a router that was told none yet.
#[derive(Debug, Default)]
pub struct Routes {
    known: bool,
    nodes: HashMap<String, Arc<Node>>,
    models: HashMap<String, Arc<Model>>,
}

impl Model {
    /// Whether it is on no node.
    pub fn is_cold(&self) -> bool {
        self.copies.is_empty()
    }

    /// Whether its being wanted is news.
    pub fn want(&self) -> bool {
        !self.wanted.swap(true, Ordering::AcqRel)
    }

    /// Whoever was told has not brought it to a node; the next request tells again.
    pub fn want_again(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// The copy that a request goes to: of two taken by chance the one whose node has less to do, not one that is not fit where
    /// there is another, not one whose address for this failed just now either where there is, and never `not`. None where no
    /// other is left.
    pub fn choose(&self, protocol: Protocol, not: Option<&Arc<ModelCopy>>, now: Instant) -> Option<Arc<ModelCopy>> {
        let count = self.copies.len();
        if count == 0 {
            return None;
        }
        let other = |copy: &&Arc<ModelCopy>| not.is_none_or(|not| !Arc::ptr_eq(not, copy));
        let from = |start: usize| (0..count).map(move |step| &self.copies[(start + step) % count]).filter(other);
        let fit = |start: usize| from(start).find(|copy| copy.is_fit(protocol, now));
        let reached = |start: usize| from(start).find(|copy| !copy.node.pause(protocol).lasts(now));
        let first = random() % count;
        let second = (first + 1 + random() % count.saturating_sub(1).max(1)) % count;
        let less = |one: Option<&'_ Arc<ModelCopy>>, another: Option<&'_ Arc<ModelCopy>>| match (one, another) {
            (Some(one), Some(another)) if another.node.outstanding() < one.node.outstanding() => Some(another.clone()),
            (one, _) => one.cloned(),
        };
        let chosen = less(fit(first), fit(second)).or_else(|| less(reached(first), reached(second)));
        chosen.or_else(|| from(first).next().cloned())
    }
}

impl Routes {
    /// An error until the first routes came: that a model is not among them says nothing before.
    pub fn check(&self) -> Result<(), Status> {
        const UNKNOWN: &str =
            "the router has not read the fleet's routes yet, which a controller writes to etcd; try again";
        if self.known { Ok(()) } else { Err(Status::new(Code::Unavailable, UNKNOWN)) }
    }

    /// The model with this name, if it is known.
    pub fn find(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.get(name)
    }

    /// All models.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values()
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Nodes that are not in the next table, or whose addresses are others there.
    pub fn lost_in<'a>(&'a self, next: &'a Routes) -> impl Iterator<Item = &'a Arc<Node>> {
        let stays = |node: &Arc<Node>| next.nodes.get(&node.id).is_some_and(|now| Arc::ptr_eq(now, node));
        self.nodes().filter(move |node| !stays(node))
    }

    /// The next table: nodes with their addresses, and the nodes of each model. Nodes, copies and counts that were there before
    /// stay. The error names what cannot be.
    pub fn after(
        &self,
        nodes: HashMap<String, Addresses>,
        models: HashMap<String, Vec<String>>,
        links: &Links,
    ) -> Result<Routes, String> {
        let node = |(id, addresses): (String, Addresses)| {
            let known = self.nodes.get(&id).filter(|known| known.addresses == addresses);
            let node = match known {
                Some(known) => known.clone(),
                None => Arc::new(Node::new(&id, addresses, links)),
            };
            (id, node)
        };
        let nodes: HashMap<_, _> = nodes.into_iter().map(node).collect();
        let model = |(name, on): (String, Vec<String>)| {
            let before = self.models.get(&name);
            let known = |node: &Arc<Node>| {
                before.and_then(|before| before.copies.iter().find(|copy| Arc::ptr_eq(&copy.node, node)).cloned())
            };
            let mut found: Vec<Arc<ModelCopy>> = Vec::with_capacity(on.len());
            for id in on {
                let node = nodes.get(&id).ok_or_else(|| {
                    format!("model '{name}' is on node '{id}', which is not among the nodes: name it there, too")
                })?;
                if !found.iter().any(|copy| Arc::ptr_eq(&copy.node, node)) {
                    found.push(known(node).unwrap_or_else(|| Arc::new(ModelCopy::new(node.clone()))));
                }
            }
            let still_cold = before.filter(|before| before.is_cold() && found.is_empty());
            let wanted = still_cold.map_or_else(Arc::default, |before| before.wanted.clone());
            let counts = before.map_or_else(Arc::default, |before| before.counts.clone());
            let model = Model { name: name.clone(), copies: found, counts, wanted };
            Ok((name, Arc::new(model)))
        };
        let models = models.into_iter().map(model).collect::<Result<HashMap<_, _>, String>>()?;
        Ok(Routes { known: true, nodes, models })
    }
}

thread_local! {
    static SEED: Cell<u64> = Cell::new(RandomState::new().hash_one(0) | 1);
}

/// Good enough to share work by (xorshift).
fn random() -> usize {
    SEED.with(|seed| {
        let mut next = seed.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        seed.set(next);
        (next >> 16) as usize
    })
}
