//! The explanation of a JSON value that does not fit: TensorFlow Serving's first complaint, found here by walking a tree
//! level by level as TensorFlow Serving does, and in a time that does not grow with the depth.

use std::time::{Duration, Instant};

use crate::support::random::Random;
use crate::support::spec;
use tidegate_codec::dtype::DType;
use tidegate_codec::json::explain::complaint;
use tidegate_codec::json::scanner::Scanner;

enum Tree {
    List(Vec<Tree>),
    Value(&'static str),
}

impl Tree {
    fn random(random: &mut Random, depth: usize) -> Tree {
        if depth == 0 || random.below(6) == 0 {
            return Tree::Value(["1", "2.5", "\"a\"", "1"][random.below(4)]);
        }
        let count = [0, 1, 2, 2, 2, 2, 2, 3][random.below(8)];
        Tree::List((0..count).map(|_| Tree::random(random, depth - 1)).collect())
    }

    fn text(&self) -> String {
        match self {
            Tree::Value(text) => (*text).to_owned(),
            Tree::List(items) => format!("[{}]", items.iter().map(Tree::text).collect::<Vec<_>>().join(",")),
        }
    }

    /// Lengths of the first lists of each level.
    fn dims(&self) -> Vec<usize> {
        match self {
            Tree::Value(_) => Vec::new(),
            Tree::List(items) => {
                [items.len()].into_iter().chain(items.first().map_or(Vec::new(), Tree::dims)).collect()
            }
        }
    }

    fn check(&self, level: usize, dims: &[usize]) -> Result<(), String> {
        let rank = dims.len();
        match self {
            Tree::Value(text) if level != rank => Err(format!(
                "JSON Value: {text} found at incorrect level: {} in the JSON DOM. Expected at level: {rank}",
                level + 1
            )),
            Tree::Value(text) if text.starts_with('"') => {
                Err(format!("JSON Value: {text} Type: String is not of expected type: float"))
            }
            Tree::Value(_) => Ok(()),
            Tree::List(_) if level >= rank => {
                Err(format!("Encountered list at unexpected level: {level} expected < {rank}"))
            }
            Tree::List(items) if items.len() != dims[level] => Err(format!(
                "Encountered list at unexpected size: {} at level: {level} expected size: {}",
                items.len(),
                dims[level]
            )),
            Tree::List(items) => items.iter().try_for_each(|item| item.check(level + 1, dims)),
        }
    }
}

fn explained(text: &str) -> Result<Option<Vec<usize>>, String> {
    let x = spec("x", DType::Float32, &[-1]);
    complaint(&Scanner::new(text.as_bytes()), &x).map_err(|status| status.message)
}

#[test]
fn one_pass_finds_what_a_walk_by_level_finds_first() {
    let (mut random, mut kinds) = (Random(5), std::collections::BTreeMap::<String, usize>::new());
    for _ in 0..100_000 {
        let tree = Tree::random(&mut random, 4);
        let (text, dims) = (tree.text(), tree.dims());
        let expected = tree.check(0, &dims).map(|()| Some(dims));
        assert_eq!(explained(&text), expected, "{text}");
        let kind = expected.map_or_else(|what| what.split_whitespace().take(2).collect(), |_| "fits".to_owned());
        *kinds.entry(kind).or_default() += 1;
    }
    assert!(kinds.len() == 3 && kinds.values().all(|count| *count > 1000), "{kinds:?}");
}

fn took(text: &str) -> Duration {
    let tries = (0..3).map(|_| {
        let began = Instant::now();
        assert!(explained(text).is_err());
        began.elapsed()
    });
    tries.min().unwrap()
}

#[test]
fn a_deep_value_is_explained_as_quickly_as_a_flat_one() {
    let nested = |depth: usize| format!("{}{}\"a\"{}", "[".repeat(depth), "1.0,".repeat(100_000), "]".repeat(depth));
    // On a busy machine any of them may take longer.
    let tries: Vec<_> = (0..5).map(|_| (took(&nested(2)), took(&nested(250)))).collect();
    assert!(tries.iter().any(|(flat, deep)| *deep < *flat * 5), "{tries:?}");
}

#[test]
fn a_value_of_more_than_a_megabyte_is_not_looked_through_again() {
    let text = |count: usize| format!("[{}\"a\"]", "1.0,".repeat(count));
    assert!(explained(&text(200_000)).is_err());
    assert_eq!(explained(&text(300_000)), Ok(None));
}
