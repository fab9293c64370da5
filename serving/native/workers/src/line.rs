//! The line to one worker: a socket for short messages, and on each side memory for tensors.
//!
//! Messages go one at a time and come one at a time, whatever the number of threads; nobody waits for the other way.

use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::Tensor;

use crate::error::LineError;
use crate::layout::{self, Known, Named};
use crate::memory::{Mine, Theirs};

/// Of a message: its number, its length and its layout's, each in four bytes, the highest first. What somebody else says who
/// has the socket too, such as a child that a model forked, has the number of another message.
const HEAD: usize = 12;
const MOST_MESSAGE: usize = 1 << 28;
const MOST_AT_ONCE: usize = 1 << 12;

/// What came: a text, and tensors by name.
#[derive(Debug)]
pub struct Message {
    /// In JSON.
    pub text: Vec<u8>,
    /// With their names.
    pub tensors: Vec<(String, DType, Tensor)>,
}

/// One end of a socket, and the memory of both sides.
#[derive(Debug)]
pub struct Line {
    end: UnixStream,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
    /// When the message was sent that nothing has answered yet.
    asked: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Outgoing {
    sent: u32,
    memory: Mine,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Incoming {
    received: u32,
    memory: Theirs,
    known: Known,
    /// What came of the next message.
    ahead: Vec<u8>,
}

impl Line {
    /// Over one end of a socket that blocks.
    pub fn new(end: UnixStream) -> Line {
        Line { end, outgoing: Mutex::default(), incoming: Mutex::default(), asked: Mutex::default() }
    }

    /// Sends a message.
    pub fn send(&self, text: &[u8], tensors: &[Named<'_>]) -> Result<(), LineError> {
        *lock(&self.asked) = Some(Instant::now());
        let mut outgoing = lock(&self.outgoing);
        let Outgoing { sent, memory, bytes: out } = &mut *outgoing;
        let (starts, needed) = layout::places(tensors);
        let is_new = memory.write(tensors, &starts, needed)?;
        out.clear();
        out.resize(HEAD, 0);
        out.extend_from_slice(text);
        layout::write(out, tensors, &starts);
        let (size, layout_size) = (length(text.len())?, length(out.len() - HEAD - text.len())?);
        *sent = after(*sent);
        out[..4].copy_from_slice(&sent.to_be_bytes());
        out[4..8].copy_from_slice(&size.to_be_bytes());
        out[8..HEAD].copy_from_slice(&layout_size.to_be_bytes());
        match memory.file().filter(|_| is_new) {
            None => (&self.end).write_all(out)?,
            Some(file) => {
                let sent = send_with(&self.end, out, file.as_fd())?;
                (&self.end).write_all(&out[sent..])?;
                memory.give_back();
            }
        }
        Ok(())
    }

    /// Waits for the next message.
    pub fn receive(&self) -> Result<Message, LineError> {
        let mut incoming = lock(&self.incoming);
        let Incoming { received, memory, known, ahead } = &mut *incoming;
        let mut data = std::mem::take(ahead);
        loop {
            if let Some((number, size, whole)) = head_of(&data)?
                && data.len() >= whole
            {
                *received = after(*received);
                if number != *received {
                    return Err(LineError::NoSense(format!(
                        "message {number} came in place of {received}: somebody else has the socket too"
                    )));
                }
                let rest = data.split_off(whole);
                *ahead = rest;
                let places = known.read(&data[HEAD + size..])?;
                let tensors = memory.read(&places)?;
                let named = places.iter().zip(tensors).map(|(place, tensor)| (place.name.clone(), place.dtype, tensor));
                let tensors = named.collect();
                data.truncate(HEAD + size);
                data.drain(..HEAD);
                *lock(&self.asked) = None;
                return Ok(Message { text: data, tensors });
            }
            if let Some(descriptor) = receive_more(&self.end, &mut data)? {
                memory.take(descriptor)?;
            }
        }
    }

    /// Gives the system back what lies in the large memory of both sides. No message may be on its way.
    pub fn rest(&self) -> Result<(), LineError> {
        lock(&self.outgoing).memory.empty()?;
        Ok(lock(&self.incoming).memory.empty()?)
    }

    /// For how long nothing has come since the last message was sent; none where something has.
    pub fn unanswered(&self) -> Option<Duration> {
        lock(&self.asked).map(|asked| asked.elapsed())
    }

    /// Whether the other side lets go within that time.
    pub fn await_end(&self, time: Duration) -> Result<bool, LineError> {
        // A hang-up is told whatever is asked for.
        let mut looked = [PollFd::new(&self.end, PollFlags::empty())];
        let time = Timespec::try_from(time).ok();
        Ok(retry_on_intr(|| poll(&mut looked, time.as_ref()))? > 0)
    }

    /// Nothing comes or goes any more: whoever waits for a message is told that nobody is there.
    pub fn hang_up(&self) {
        // One that has gone already has nothing to be told.
        drop(self.end.shutdown(Shutdown::Both));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn length(bytes: usize) -> Result<u32, LineError> {
    u32::try_from(bytes)
        .ok()
        .filter(|_| bytes < MOST_MESSAGE)
        .ok_or_else(|| LineError::NoSense(format!("a message of {bytes} bytes is too long")))
}

/// The number of the message that follows.
fn after(number: u32) -> u32 {
    if number == u32::MAX { 1 } else { number + 1 }
}

/// The number, and the sizes of the text and of the whole message, once its head is there.
fn head_of(data: &[u8]) -> Result<Option<(u32, usize, usize)>, LineError> {
    let Some(head) = data.first_chunk::<HEAD>() else { return Ok(None) };
    let part = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (number, size, layout_size) = (part(0), part(4) as usize, part(8) as usize);
    let whole = HEAD + size + layout_size;
    if whole > MOST_MESSAGE {
        return Err(LineError::NoSense(format!("a message of {whole} bytes is none of ours")));
    }
    Ok(Some((number, size, whole)))
}

/// Sends bytes with a descriptor; how many went.
fn send_with(end: &UnixStream, bytes: &[u8], descriptor: BorrowedFd<'_>) -> Result<usize, LineError> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    Ok(retry_on_intr(|| sendmsg(end, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))?)
}

/// Waits for more bytes, which it appends; the descriptor that came with them.
fn receive_more(end: &UnixStream, data: &mut Vec<u8>) -> Result<Option<OwnedFd>, LineError> {
    let before = data.len();
    data.resize(before + MOST_AT_ONCE, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let came = retry_on_intr(|| recvmsg(end, &mut [IoSliceMut::new(&mut data[before..])], &mut ancillary, flags))?;
    data.truncate(before + came.bytes);
    if came.bytes == 0 {
        return Err(LineError::Closed("the other side ended".to_owned()));
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok(descriptors.flatten().last())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use tidegate_codec::tensors::{Column, Words};

    use super::*;

    #[test]
    fn a_message_is_unanswered_until_another_one_comes() {
        let (end, other) = UnixStream::pair().unwrap();
        let (line, other) = (Line::new(end), Line::new(other));
        assert_eq!(line.unanswered(), None);
        line.send(b"a question", &[]).unwrap();
        assert!(line.unanswered().is_some());
        assert_eq!(other.receive().unwrap().text, b"a question");
        other.send(b"an answer", &[]).unwrap();
        assert!(line.unanswered().is_some(), "nobody has seen it yet");
        line.receive().unwrap();
        assert_eq!(line.unanswered(), None);
    }

    #[test]
    fn large_memory_is_kept_for_the_next_message_and_takes_none_at_rest() {
        let (end, other) = UnixStream::pair().unwrap();
        let (line, other) = (Line::new(end), Line::new(other));
        let mut words = Words::default();
        (0..1_u64 << 20).for_each(|at| words.push(&at.to_le_bytes()));
        let column = Column::Raw(words);
        let tell = |from: &Line, to: &Line| {
            let shape = vec![1 << 20];
            from.send(b"", &[Named { name: "x", dtype: DType::Int64, shape, column: &column }]).unwrap();
            let (_, _, tensor) = to.receive().unwrap().tensors.pop().unwrap();
            assert_eq!(tensor.column.extent(), column.extent());
            let (Column::Raw(came), Column::Raw(sent)) = (&tensor.column, &column) else { panic!("strings") };
            assert!(came.as_bytes() == sent.as_bytes());
        };
        let of = |line: &Line| {
            let outgoing = lock(&line.outgoing);
            let metadata = outgoing.memory.file().unwrap().metadata().unwrap();
            (metadata.ino(), metadata.blocks() * 512)
        };
        for (one, two) in [(&line, &other), (&other, &line)] {
            tell(one, two);
        }
        let before = (of(&line), of(&other));
        assert!(before.0.1 >= 8 << 20 && before.1.1 >= 8 << 20, "{before:?}");
        line.rest().unwrap();
        assert_eq!((of(&line), of(&other)), ((before.0.0, 0), (before.1.0, 0)));
        tell(&line, &other);
        tell(&other, &line);
        assert_eq!((of(&line), of(&other)), before, "it is other memory");
    }
}
