//! The calls of one connection whose messages have not come in full.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Instant;

use h2::RecvStream;
use http::request;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Share;
use tokio::time::Sleep;

use crate::aside::LARGE;
use crate::connections::lifeline::LargeMessage;
use crate::connections::peer::Peer;
use crate::endpoints::body::{Arriving, LESS};
use crate::endpoints::grpc::in_order::InOrder;
use crate::endpoints::grpc::message::WholeCall;
use crate::endpoints::grpc::reply::{FRAME_HEAD, GrpcReply};
use crate::endpoints::grpc::service::{GrpcService, refuse};

/// Those of a connection, and when it is to be looked at them.
pub struct PartialCalls {
    calls: Vec<Partial>,
    /// So many of the first were looked at, and wait for what is noted as arrived.
    waiting: usize,
    arrived: Arc<Arrived>,
    notes_arrival: Waker,
    /// None of their deadlines is before this.
    earliest: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    in_order: InOrder,
}

/// Whether something came in one of a connection's calls: what comes there is read by its own task, which looks at them
/// afterwards and need not be woken for it.
#[derive(Default)]
struct Arrived(AtomicBool);

impl Wake for Arrived {
    fn wake(self: Arc<Arrived>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A call whose message has not come in full.
pub struct Partial {
    head: request::Parts,
    body: RecvStream,
    reply: GrpcReply,
    arriving: Arriving,
    /// While it comes, where it is large.
    large: Option<LargeMessage>,
    deadline: Instant,
}

/// What became of a partial call.
enum Progress {
    Waits(Box<Partial>),
    Done,
}

impl Default for PartialCalls {
    fn default() -> PartialCalls {
        let arrived = Arc::<Arrived>::default();
        let (notes_arrival, calls) = (Waker::from(arrived.clone()), Vec::new());
        let in_order = InOrder::default();
        PartialCalls { calls, waiting: 0, arrived, notes_arrival, earliest: None, timer: None, in_order }
    }
}

impl PartialCalls {
    /// One more.
    pub fn begin(&mut self, partial: Partial) {
        self.earliest = Some(self.earliest.map_or(partial.deadline, |earliest| earliest.min(partial.deadline)));
        self.calls.push(partial);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// Reads what has come, and hands those over whose messages are complete.
    pub fn read<S: GrpcService>(&mut self, service: &Arc<S>, peer: &Peer, memory: &Arc<Share>) {
        let first = if self.arrived.0.load(Ordering::Acquire) { 0 } else { self.waiting };
        if first == self.calls.len() {
            return;
        }
        self.arrived.0.store(false, Ordering::Release);
        let mut context = Context::from_waker(&self.notes_arrival);
        let looked_at = if first == 0 { std::mem::take(&mut self.calls) } else { self.calls.split_off(first) };
        for partial in looked_at {
            if let Progress::Waits(partial) = partial.advance(&mut context, service, peer, memory, &self.in_order) {
                self.calls.push(*partial);
            }
        }
        self.waiting = self.calls.len();
    }

    /// Ready once when a call ran out of time and was answered, or one would have that was complete before.
    pub fn poll_timer<S: GrpcService>(&mut self, context: &mut Context<'_>, service: &S) -> Poll<()> {
        if self.calls.is_empty() {
            (self.earliest, self.timer) = (None, None);
        }
        let Some(next) = self.earliest else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next.into())));
        if timer.deadline() != next.into() {
            timer.as_mut().reset(next.into());
        }
        ready!(timer.as_mut().poll(context));
        let now = Instant::now();
        for partial in std::mem::take(&mut self.calls) {
            if partial.deadline <= now {
                let late = Status::new(Code::DeadlineExceeded, "the deadline passed before the whole message came");
                refuse(service, partial.reply, &late);
            } else {
                self.calls.push(partial);
            }
        }
        self.waiting = self.calls.len();
        self.earliest = self.calls.iter().map(|partial| partial.deadline).min();
        Poll::Ready(())
    }
}

impl Partial {
    /// One of which the head has come.
    pub fn new(head: request::Parts, body: RecvStream, reply: GrpcReply, deadline: Instant) -> Partial {
        Partial { head, body, reply, arriving: Arriving::default(), large: None, deadline }
    }

    /// Reads what has come; hands the call over once its message is complete.
    fn advance<S: GrpcService>(
        mut self,
        context: &mut Context<'_>,
        service: &Arc<S>,
        peer: &Peer,
        share: &Arc<Share>,
        order: &InOrder,
    ) -> Progress {
        let most = peer.limits.max_message_bytes();
        let mut ended = false;
        loop {
            match self.body.poll_data(context) {
                Poll::Pending => return self.wait(&**service, share),
                Poll::Ready(Some(Err(_))) => {
                    service.count_unread(Code::Cancelled);
                    return Progress::Done;
                }
                Poll::Ready(None) => ended = true,
                Poll::Ready(Some(Ok(data))) => {
                    let length = data.len();
                    peer.lifeline.note_came(length);
                    let expected =
                        frame_length(self.arriving.so_far(), most).ok().flatten().map_or(0, |more| more + FRAME_HEAD);
                    if let Err(status) = self.arriving.push(data, expected, share) {
                        refuse(&**service, self.reply, &status);
                        return Progress::Done;
                    }
                    // The client may send more once what it sent is counted.
                    let _ = self.body.flow_control().release_capacity(length);
                }
            }
            ended |= self.body.is_end_stream();
            let so_far = self.arriving.so_far().len();
            match frame_length(self.arriving.so_far(), most) {
                Err(status) => {
                    refuse(&**service, self.reply, &status);
                    return Progress::Done;
                }
                Ok(Some(length)) if so_far > FRAME_HEAD + length => {
                    let what = "a call of this method has one message, and there is more in it";
                    refuse(&**service, self.reply, &Status::new(Code::Unimplemented, what));
                    return Progress::Done;
                }
                Ok(Some(length)) if ended && so_far == FRAME_HEAD + length => {
                    self.hand_over(service, peer, share, order);
                    return Progress::Done;
                }
                Ok(_) if ended => {
                    refuse(&**service, self.reply, &Status::invalid("the call ended before its message"));
                    return Progress::Done;
                }
                Ok(length) => {
                    if self.large.is_none() && length.unwrap_or(so_far) > LARGE {
                        self.large = Some(peer.lifeline.begin_large());
                    }
                    if let Err(status) = self.arriving.wait(length.map_or(0, |length| length + FRAME_HEAD), share) {
                        refuse(&**service, self.reply, &status);
                        return Progress::Done;
                    }
                }
            }
        }
    }

    /// What it takes is counted meanwhile.
    fn wait<S: GrpcService>(mut self, service: &S, share: &Arc<Share>) -> Progress {
        self.reply.note_due(false);
        match self.reply.hold(&self.head, share) {
            Ok(()) => Progress::Waits(Box::new(self)),
            Err(status) => {
                refuse(service, self.reply, &status);
                Progress::Done
            }
        }
    }

    /// Its message is complete.
    fn hand_over<S: GrpcService>(self, service: &Arc<S>, peer: &Peer, share: &Arc<Share>, order: &InOrder) {
        let bytes_in = self.arriving.so_far().len() - FRAME_HEAD;
        let (frame, memory) = self.arriving.finish();
        let Partial { head, mut reply, deadline, .. } = self;
        reply.note_due(true);
        if !service.stays(head.uri.path()) {
            reply.release();
        }
        let received = Instant::now();
        reply.observation.note(|facts| {
            facts.received = Some(received);
            facts.bytes_in = bytes_in;
        });
        WholeCall { head, frame, memory, received, deadline, reply }.hand_over(service, peer, share, order);
    }
}

/// The length of the message in a frame, once its five bytes are there.
fn frame_length(so_far: &[u8], limit: usize) -> Result<Option<usize>, Status> {
    let Some((head, _)) = so_far.split_first_chunk::<FRAME_HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > limit {
        return Err(Status::exhausted(format!(
            "the message of {length} bytes is larger than the limit of {limit} bytes: {LESS}"
        )));
    }
    Ok(Some(length))
}
