//! MultiInference: each task about the same examples joins the batch of its signature.

use http::HeaderMap;
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext, Route};
use tidegate_engine::serving_map::{KeyValue, Requester};

use crate::endpoints::examples::Examples;
use crate::endpoints::grpc::fan_in::{TaskReply, fan_in};
use crate::endpoints::grpc::prediction::PredictionReply;
use crate::endpoints::grpc::reply::GrpcReply;

/// Takes over all tasks of a call.
pub fn dispatch<R: Reply + From<TaskReply>>(
    dispatcher: &Dispatcher<R>,
    context: RequestContext<GrpcReply>,
    headers: &HeaderMap,
    request: &MultiInferenceRequest<'_>,
) {
    let RequestContext { reply, id, received, deadline } = context;
    let refuse = |reply: GrpcReply, version, status| {
        let context = RequestContext { reply: PredictionReply::from(reply), id: id.clone(), received, deadline };
        dispatcher.refuse(context, version, &status);
    };
    let map = dispatcher.engine.map.load();
    let spec = request.spec();
    let requester = Requester { id: &id, key: KeyValue::In(headers) };
    let (model, version) = match map.resolve(spec.name, spec.choice, Some(&requester)) {
        Ok(found) => found,
        Err(status) => return refuse(reply, None, status),
    };
    let find = |name: &str| version.queue(name).map(|queue| (queue, queue.signature()));
    let tasks = match request.resolve(find) {
        Ok(tasks) => tasks,
        Err(status) => return refuse(reply, Some(version), status),
    };
    if let Some((queue, ..)) = tasks.first() {
        queue.served.metrics.count_call(Call::MultiInference);
    }
    let replies = fan_in(reply, tasks.iter().map(|(.., outputs)| *outputs));
    for (reply, (queue, method, _)) in replies.into_iter().zip(tasks) {
        let context = RequestContext { reply, id: id.clone(), received, deadline };
        dispatcher.admit(context, &Route { model, version, queue }, &Examples::new(method, &request.input));
    }
}
