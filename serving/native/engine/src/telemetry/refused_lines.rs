//! How many lines requests get in the access log that no model ran for: so many a second of each address, so that nobody
//! fills the disk by being refused. What is left out beyond that is counted, address by address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

const SECOND: Duration = Duration::from_secs(1);

/// So many addresses have lines of their own in a second; all others share those of one.
const ADDRESSES: usize = 64;

/// Whose lines are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Address(IpAddr),
    /// An IPv6 network of 64 bits, of which one machine may have every address.
    Network(Ipv6Addr),
    /// A socket of a file.
    Local,
    /// Those for whom there was no count of their own.
    Others,
}

impl Source {
    fn of(peer: Option<IpAddr>) -> Source {
        match peer.map(|peer| peer.to_canonical()) {
            None => Source::Local,
            Some(IpAddr::V6(address)) if !address.is_loopback() => {
                let [a, b, c, d, ..] = address.segments();
                Source::Network(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            Some(address) => Source::Address(address),
        }
    }

    /// As a line's `peer` has it; none through a socket of a file.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Source::Address(address) => Some(address.to_string()),
            Source::Network(network) => Some(format!("{network}/64")),
            Source::Local => None,
            Source::Others => Some("others".into()),
        }
    }
}

/// Lines that an address would have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) source: Source,
    pub(super) lines: u64,
}

#[derive(Debug, Default)]
struct Count {
    written: u32,
    left_out: u64,
}

#[derive(Debug)]
struct Counts {
    began: Instant,
    of: HashMap<Source, Count>,
}

/// Counts the lines of refused requests.
#[derive(Debug)]
pub(super) struct RefusedLines {
    most: u32,
    counts: Mutex<Counts>,
}

impl RefusedLines {
    /// Of each address so many a second.
    pub(super) fn new(most: u32) -> RefusedLines {
        RefusedLines { most, counts: Mutex::new(Counts { began: Instant::now(), of: HashMap::new() }) }
    }

    /// Whether a request from there has its line; it is counted where not.
    pub(super) fn admit(&self, peer: Option<IpAddr>, now: Instant) -> bool {
        let mut counts = lock(&self.counts);
        if now.saturating_duration_since(counts.began) >= SECOND {
            counts.began = now;
            // Whoever reads what was left out comes when it comes, and until then it is kept.
            counts.of.retain(|_, count| count.left_out > 0);
            counts.of.values_mut().for_each(|count| count.written = 0);
        }
        let source = Source::of(peer);
        let known = counts.of.len() < ADDRESSES || counts.of.contains_key(&source);
        let count = counts.of.entry(if known { source } else { Source::Others }).or_default();
        let written = count.written < self.most;
        count.written += u32::from(written);
        count.left_out += u64::from(!written);
        written
    }

    /// Takes what was left out until now.
    pub(super) fn take_left_out(&self) -> Vec<LeftOut> {
        let mut counts = lock(&self.counts);
        let taken = counts.of.iter_mut().filter(|(_, count)| count.left_out > 0);
        taken.map(|(source, count)| LeftOut { source: *source, lines: std::mem::take(&mut count.left_out) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn each_address_has_so_many_lines_a_second_and_the_others_are_counted() {
        let (lines, now) = (RefusedLines::new(2), Instant::now());
        let admitted = |peer, now| (0..5).filter(|_| lines.admit(peer, now)).count();
        assert_eq!((admitted(address(1), now), admitted(None, now)), (2, 2));
        assert!(lines.admit(address(2), now));
        let mut left = lines.take_left_out();
        left.sort_by_key(|left| left.source.name());
        let of = |source, lines| LeftOut { source, lines };
        assert_eq!(left, [of(Source::Local, 3), of(Source::Address([10, 0, 0, 1].into()), 3)]);
        assert_eq!(lines.take_left_out(), []);
        assert_eq!(admitted(address(1), now), 0, "the second is not over");
        assert_eq!(admitted(address(1), now + SECOND), 2);
        assert_eq!(lines.take_left_out(), [of(Source::Address([10, 0, 0, 1].into()), 8)], "of both seconds");
    }

    #[test]
    fn very_many_addresses_share_the_lines_of_one() {
        let (lines, now) = (RefusedLines::new(3), Instant::now());
        let admitted = (0..=255).flat_map(|last| [address(last); 5]).filter(|peer| lines.admit(*peer, now)).count();
        assert_eq!(admitted, 3 * ADDRESSES + 3);
        let left = lines.take_left_out();
        assert_eq!(left.len(), ADDRESSES + 1);
        assert_eq!(left.iter().map(|left| left.lines).sum::<u64>() as usize, 5 * 256 - admitted);
        assert!(left.iter().any(|left| left.source.name().as_deref() == Some("others")));
    }

    #[test]
    fn a_network_of_one_machine_counts_as_one_address() {
        let (lines, now) = (RefusedLines::new(1), Instant::now());
        let peer = |text: &str| Some(text.parse().unwrap());
        assert!(lines.admit(peer("2001:db8:1:2::3"), now) && !lines.admit(peer("2001:db8:1:2:4::5"), now));
        assert!(lines.admit(peer("2001:db8:1:3::3"), now), "another network");
        assert!(lines.admit(peer("10.0.0.1"), now) && !lines.admit(peer("::ffff:10.0.0.1"), now));
        let names: Vec<_> = lines.take_left_out().iter().filter_map(|left| left.source.name()).collect();
        assert!(names.contains(&"2001:db8:1:2::/64".into()) && names.contains(&"10.0.0.1".into()), "{names:?}");
    }
}
