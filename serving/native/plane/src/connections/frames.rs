//! Follows the frames of an HTTP/2 connection as they are read: whether it begins as it must, whether it changes its
//! settings all the time, and whether a frame is only there in part. Frames of data do not count there, whose calls have
//! deadlines of their own.

use std::time::{Duration, Instant};

/// The payload of a full frame of data, unless the client takes larger ones.
pub const FULL: usize = 16 << 10;

const PREFACE: usize = 24;
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// Settings within a second that an honest client may need: each may cost a look at every open call.
const MOST_SETTINGS: u32 = 64;
/// So many other frames cost as much as a call.
const FRAMES_OF_A_CALL: usize = 32;
/// So many bytes of headers cost as much as a call: each field of them may have as few as one.
const HEADER_BYTES_OF_A_CALL: usize = 256;
const SECOND: Duration = Duration::from_secs(1);

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is the first, and not SETTINGS.
    NoSettings,
    /// It is one of too many SETTINGS.
    ManySettings,
}

/// Where the stream of frames stands.
#[derive(Debug)]
pub struct Frames {
    /// Bytes that belong to what was begun.
    left: usize,
    head: [u8; HEAD],
    come: usize,
    data: bool,
    block_open: bool,
    begun: bool,
    /// Frames, or blocks of headers, that are complete.
    complete: u64,
    calls: usize,
    /// Bytes of headers in the frames that began.
    header_bytes: usize,
    /// Frames that began no call.
    others: usize,
    /// SETTINGS that came since then.
    settings: u32,
    since: Instant,
}

impl Default for Frames {
    fn default() -> Frames {
        let (data, block_open, begun) = (false, false, false);
        let (left, head, come, complete) = (PREFACE, [0; HEAD], 0, 0);
        let (calls, header_bytes, others, settings, since) = (0, 0, 0, 0, Instant::now());
        Frames { left, head, come, data, block_open, begun, complete, calls, header_bytes, others, settings, since }
    }
}

impl Frames {
    /// Follows bytes. The error is what is wrong with a frame, and the position at which the rest of its head begins.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), (Fault, usize)> {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len() - at);
                self.left -= passed;
                at += passed;
            } else {
                let start = at;
                let taken = (HEAD - self.come).min(bytes.len() - at);
                self.head[self.come..self.come + taken].copy_from_slice(&bytes[at..at + taken]);
                self.come += taken;
                at += taken;
                if self.come == HEAD {
                    self.begin_frame().map_err(|fault| (fault, start))?;
                }
            }
            if self.left == 0 && self.come == 0 && !self.block_open {
                self.complete += 1;
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self) -> Result<(), Fault> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.come = 0;
        if !self.begun && kind != SETTINGS {
            return Err(Fault::NoSettings);
        }
        self.begun = true;
        if kind == SETTINGS && flags & ACK == 0 {
            self.count_settings()?;
        }
        self.data = kind == DATA;
        self.calls += usize::from(kind == HEADERS);
        self.others += usize::from(kind != HEADERS);
        if kind == HEADERS || kind == CONTINUATION {
            self.block_open = flags & END_HEADERS == 0;
            self.header_bytes += self.left;
        }
        Ok(())
    }

    fn count_settings(&mut self) -> Result<(), Fault> {
        self.settings += 1;
        if self.settings <= MOST_SETTINGS {
            return Ok(());
        }
        if self.since.elapsed() < SECOND {
            return Err(Fault::ManySettings);
        }
        (self.settings, self.since) = (1, Instant::now());
        Ok(())
    }

    /// How many calls began since this was asked last, or as many as their headers cost, with as many as the other frames that
    /// came since cost. A few of these count for nothing, however often: who begins one call at a time sends some with each.
    pub fn take_calls(&mut self) -> usize {
        let headers = std::mem::take(&mut self.header_bytes) / HEADER_BYTES_OF_A_CALL;
        std::mem::take(&mut self.calls).max(headers) + std::mem::take(&mut self.others) / FRAMES_OF_A_CALL
    }

    /// The number of the frame of which only a part has come; 0 for none, or for one of data.
    pub fn partial(&self) -> u64 {
        let waits = self.left > 0 && !self.data || self.come > 0 || self.block_open || !self.begun;
        if waits { self.complete + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0, (payload >> 8) as u8, payload as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + payload, 7);
        frame
    }

    fn begun() -> Frames {
        let mut frames = Frames::default();
        frames.feed(&[vec![b'P'; PREFACE], frame(SETTINGS, 0, 6)].concat()).unwrap();
        assert_eq!(frames.partial(), 0);
        frames
    }

    #[test]
    fn nothing_is_partial_between_frames_however_they_are_cut() {
        let bytes =
            [frame(HEADERS, END_HEADERS, 30), frame(DATA, 1, 300), frame(HEADERS, 0, 2), frame(CONTINUATION, 4, 2)];
        for size in [1, 2, 7, 1000] {
            let mut frames = begun();
            for piece in bytes.concat().chunks(size) {
                frames.feed(piece).unwrap();
            }
            assert_eq!(frames.partial(), 0, "in pieces of {size}");
        }
    }

    #[test]
    fn a_block_of_headers_that_does_not_end_stays_the_same_part() {
        let mut frames = begun();
        frames.feed(&frame(HEADERS, 0, 3)).unwrap();
        let part = frames.partial();
        assert_ne!(part, 0);
        frames.feed(&frame(CONTINUATION, 0, 3)).unwrap();
        assert_eq!(frames.partial(), part);
    }

    #[test]
    fn half_a_frame_of_data_is_no_part() {
        let mut frames = begun();
        frames.feed(&frame(DATA, 0, 300)[..100]).unwrap();
        assert_eq!(frames.partial(), 0);
    }

    #[test]
    fn the_first_frame_is_settings() {
        let mut frames = Frames::default();
        assert_eq!(frames.partial(), 1, "nothing came");
        assert_eq!(
            frames.feed(&[vec![b'P'; PREFACE], frame(HEADERS, 4, 3)].concat()),
            Err((Fault::NoSettings, PREFACE))
        );
    }

    #[test]
    fn small_frames_count_as_calls_too() {
        let mut frames = begun();
        frames.take_calls();
        frames
            .feed(&[frame(HEADERS, END_HEADERS, 30), frame(DATA, 0, 0).repeat(FRAMES_OF_A_CALL * 7)].concat())
            .unwrap();
        assert_eq!(frames.take_calls(), 8);
        assert_eq!(frames.take_calls(), 0);
    }

    #[test]
    fn calls_with_many_bytes_of_headers_count_as_more() {
        let mut frames = begun();
        frames.take_calls();
        let (half, whole) = (frame(HEADERS, 0, HEADER_BYTES_OF_A_CALL * 4), frame(HEADERS, END_HEADERS, 30));
        let rest = frame(CONTINUATION, END_HEADERS, HEADER_BYTES_OF_A_CALL * 5);
        frames.feed(&[half, rest, whole].concat()).unwrap();
        assert_eq!((frames.take_calls(), frames.take_calls()), (9, 0));
    }

    #[test]
    fn a_call_at_a_time_is_one_whatever_comes_with_it() {
        let mut frames = begun();
        frames.take_calls();
        for _ in 0..100 {
            frames.feed(&[frame(HEADERS, END_HEADERS, 30), frame(DATA, 1, 9), frame(8, 0, 4)].concat()).unwrap();
            assert_eq!(frames.take_calls(), 1);
        }
    }

    #[test]
    fn settings_may_change_now_and_then() {
        let mut frames = begun();
        for _ in 1..MOST_SETTINGS {
            frames.feed(&frame(SETTINGS, 0, 6)).unwrap();
        }
        frames.feed(&frame(SETTINGS, ACK, 0).repeat(1000)).unwrap();
        assert_eq!(frames.feed(&frame(SETTINGS, 0, 6)), Err((Fault::ManySettings, 0)));
        frames.since -= SECOND;
        frames.left = 0;
        frames.feed(&frame(SETTINGS, 0, 6).repeat(MOST_SETTINGS as usize - 1)).unwrap();
    }
}
