//! MultiInference: each task about the same examples joins the batch of its signature.

use http::HeaderMap;
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::priority::level;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext, Route};
use tidegate_engine::serving_map::{KeyValue, Requester};

use crate::endpoints::examples::Examples;
use crate::endpoints::grpc::fan_in::{TaskReply, fan_in};
use crate::endpoints::grpc::prediction::PredictionReply;

/// Takes over all tasks of a call.
pub fn dispatch<R: Reply + From<TaskReply>>(
    dispatcher: &Dispatcher<R>,
    context: RequestContext<PredictionReply>,
    headers: &HeaderMap,
    request: &MultiInferenceRequest<'_>,
) {
    let map = dispatcher.engine.map.load();
    let spec = request.spec();
    let requester = Requester { id: &context.id, key: KeyValue::In(headers), sequence: &|_| Vec::new() };
    let (model, version) = match map.resolve(spec.name, spec.choice, Some(&requester)) {
        Ok(found) => found,
        Err(status) => {
            if let Some(observation) = context.reply.observation() {
                observation.note(|facts| facts.model = Some(spec.name.into()));
            }
            return dispatcher.refuse(context, None, &status);
        }
    };
    let tasks = match request.resolve(|name| version.queue(name).map(|queue| (queue, queue.signature()))) {
        Ok(tasks) => tasks,
        Err(status) => return dispatcher.refuse(context, Some(version), &status),
    };
    if let Some((queue, ..)) = tasks.first() {
        queue.served.metrics.count_call(Call::MultiInference);
    }
    let RequestContext { reply, id, trace, received, deadline, bytes } = context;
    let replies = fan_in(reply.into_call(), tasks.iter().map(|(.., outputs)| *outputs));
    for (reply, (queue, method, _)) in replies.into_iter().zip(tasks) {
        let context = RequestContext { reply, id: id.clone(), trace, received, deadline, bytes };
        match level(queue, &KeyValue::In(headers), 0) {
            Ok(level) => {
                let route = Route { model, version, queue, level };
                dispatcher.admit(context, &route, &Examples::new(method, &request.input));
            }
            Err(status) => dispatcher.refuse(context, Some(version), &status),
        }
    }
}
