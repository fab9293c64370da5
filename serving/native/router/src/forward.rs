//! The way of one request: to a node, to a second one where the first does not answer it, and to a second one beside the first
//! where that takes long or the fleet has lost it. Only what no answer has begun for is sent again: all that is forwarded may be
//! asked twice.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_codec::status::{Code, Status};
use tokio::time::timeout;

use crate::copy::ModelCopy;
use crate::hedging::Hedging;
use crate::links::tls::Protocol;
use crate::node::Node;
use crate::routes::Model;

/// Why a node has not answered.
#[derive(Debug)]
pub enum Missed<A> {
    /// Nothing came of it.
    Unreachable(String),
    /// It says that it cannot now, or does not have the model; this is what it says.
    Refused(A),
}

/// When a second copy of a request goes while the first is under way.
#[derive(Clone, Copy)]
pub enum Copies<'a> {
    /// Never: what is asked is more than one message.
    Never,
    /// Once the fleet has lost the first node, and the model is on another one.
    OfLost,
    /// Then, and where the first one takes long.
    AlsoOfLate(&'a Hedging),
}

/// The answer of a node of the model, which is waited for until then. Both nodes of a pair that refused it are as good; an error
/// says that none was reached. `elsewhere` is asked where the fleet has lost the node: it gives the model once it is on another one.
pub async fn forward<A, F, Fut, E>(
    model: &Model,
    protocol: Protocol,
    copies: Copies<'_>,
    until: Instant,
    send: F,
    elsewhere: impl FnOnce() -> E,
) -> Result<A, Status>
where
    F: Fn(Arc<Node>) -> Fut,
    Fut: Future<Output = Result<A, Missed<A>>>,
    E: Future<Output = Result<Arc<Model>, Status>>,
{
    let chosen = model.choose(protocol, None, Instant::now());
    let copy = chosen.ok_or_else(|| unreachable(model, "it is on no node"))?;
    let mut first = pin!(ask(copy.clone(), until, &send));
    let missed = tokio::select! {
        biased;
        ended = first.as_mut() => ended,
        other = due(model, protocol, &copy, copies, elsewhere) => {
            let other = other?;
            return race(model, (&copy, first), (&other, pin!(ask(other.clone(), until, &send)))).await;
        }
    };
    let missed = match missed {
        Ok(answer) => return Ok(answer),
        Err(missed) => missed,
    };
    match model.choose(protocol, Some(&copy), Instant::now()) {
        Some(other) => {
            model.counts.retried.fetch_add(1, Ordering::Relaxed);
            settle(model, known(&other, ask(other.clone(), until, &send)).await, missed)
        }
        None => end(model, missed),
    }
}

/// Asks the node of a copy.
async fn ask<A, F, Fut>(copy: Arc<ModelCopy>, until: Instant, send: &F) -> Result<A, Missed<A>>
where
    F: Fn(Arc<Node>) -> Fut,
    Fut: Future<Output = Result<A, Missed<A>>>,
{
    let mut asking = copy.ask(until);
    let ended = send(copy.node.clone()).await;
    match &ended {
        Err(Missed::Unreachable(_)) => asking.missed(),
        _ => asking.answered(),
    }
    ended
}

/// Where a second copy goes, once it is to; an error where the fleet has lost the first node and there is no other one.
async fn due<E>(
    model: &Model,
    protocol: Protocol,
    first: &Arc<ModelCopy>,
    copies: Copies<'_>,
    elsewhere: impl FnOnce() -> E,
) -> Result<Arc<ModelCopy>, Status>
where
    E: Future<Output = Result<Arc<Model>, Status>>,
{
    if let Copies::AlsoOfLate(hedging) = copies
        && model.copies.len() > 1
    {
        hedging.note();
        if timeout(hedging.after, first.node.lost()).await.is_err()
            && let Some(other) = model
                .choose(protocol, Some(first), Instant::now())
                .filter(|other| other.is_fit(protocol, Instant::now()))
            && hedging.take()
        {
            return Ok(counted(model, other));
        }
    }
    first.node.lost().await;
    let lost = |why: &str| unreachable(model, &format!("{}{why}", lost(first)));
    if matches!(copies, Copies::Never) {
        return Err(lost(""));
    }
    // Seldom needed, so that it takes no room in each request.
    let now = Box::pin(elsewhere()).await.map_err(|status| lost(&format!(": {}", status.message)))?;
    let other = now.choose(protocol, Some(first), Instant::now()).ok_or_else(|| lost(""))?;
    Ok(counted(model, other))
}

fn counted(model: &Model, other: Arc<ModelCopy>) -> Arc<ModelCopy> {
    model.counts.hedged.fetch_add(1, Ordering::Relaxed);
    other
}

/// A copy that is asked, and the asking.
type UnderWay<'a, Fut> = (&'a Arc<ModelCopy>, Pin<&'a mut Fut>);

/// The first answer of two; the other copy is dropped, which cancels it.
async fn race<A, Fut>(model: &Model, first: UnderWay<'_, Fut>, second: UnderWay<'_, Fut>) -> Result<A, Status>
where
    Fut: Future<Output = Result<A, Missed<A>>>,
{
    let ((a, mut first), (b, mut second)) = (first, second);
    let both_lost = async {
        a.node.lost().await;
        b.node.lost().await;
    };
    let (ended, other, asked) = tokio::select! {
        biased;
        ended = first.as_mut() => (ended, b, second),
        ended = second.as_mut() => (ended, a, first),
        () = both_lost => return Err(unreachable(model, &lost(b))),
    };
    match ended {
        Ok(answer) => Ok(answer),
        Err(missed) => settle(model, known(other, asked).await, missed),
    }
}

/// What comes of asking a copy for as long as the fleet knows its node.
async fn known<A>(copy: &Arc<ModelCopy>, asked: impl Future<Output = Result<A, Missed<A>>>) -> Result<A, Missed<A>> {
    tokio::select! {
        biased;
        ended = asked => ended,
        () = copy.node.lost() => Err(Missed::Unreachable(lost(copy))),
    }
}

fn lost(copy: &ModelCopy) -> String {
    format!("the fleet has lost node '{}', which was asked", copy.node.id)
}

/// What is answered once the last node was asked: what it says, or, where nothing came of it, what the first one said.
fn settle<A>(model: &Model, last: Result<A, Missed<A>>, before: Missed<A>) -> Result<A, Status> {
    match (last, before) {
        (Ok(answer), _) => Ok(answer),
        (Err(Missed::Unreachable(_)), Missed::Refused(answer)) => Ok(answer),
        (Err(missed), _) => end(model, missed),
    }
}

fn end<A>(model: &Model, missed: Missed<A>) -> Result<A, Status> {
    match missed {
        Missed::Refused(answer) => Ok(answer),
        Missed::Unreachable(why) => Err(unreachable(model, &why)),
    }
}

fn unreachable(model: &Model, why: &str) -> Status {
    Status::new(Code::Unavailable, format!("no node answers for model '{}': {why}; try again", model.name))
}
