//! Negotiation: what all ranks have ready, and in which order it is done. Pure.
//!
//! There is no coordinator. In every round each rank says what it newly has ready, everybody hears the same, and
//! everybody comes to the same answer by itself; so errors are the same on all ranks, too. Ranks may ask in any
//! order: what only some have asked for waits for the others.

pub(crate) mod cache;
pub(crate) mod fuse;
pub(crate) mod request;
pub(crate) mod round_message;
#[cfg(test)]
mod tests;
mod validate;

use std::{collections::BTreeMap, sync::Arc};

use self::{
    cache::{Agreed, Cache},
    request::{Kind, Request, Spec},
    round_message::{Item, RoundMessage},
    validate::{Asked, validate},
};
use crate::types::Rank;

/// What all ranks do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Response {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    /// The requests of all members; none for a member that has joined.
    pub(crate) agreed: Agreed,
    pub(crate) decision: Decision,
    pub(crate) members: Arc<[Rank]>,
}

impl Response {
    /// One of the requests: what is the same on all ranks can be read from it.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.agreed.iter().flatten().next().map(AsRef::as_ref)
    }

    pub(crate) fn specs(&self) -> &[Spec] {
        self.request().map_or(&[], |request| &request.tensors)
    }

    /// The member that a broadcast comes from.
    pub(crate) fn root_member(&self, request: &Request) -> usize {
        self.members.iter().position(|rank| *rank == request.root).unwrap_or(0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    Go,
    /// The ranks do not fit together.
    Refused(String),
    /// Everybody has joined; this one was the last.
    AllJoined(Rank),
}

/// An operation for which not all ranks have asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stalled {
    pub(crate) asked: Vec<Rank>,
    pub(crate) missing: Vec<Rank>,
}

/// The state that all ranks of a group have in common.
#[derive(Debug)]
pub(crate) struct Negotiator {
    ranks: Arc<[Rank]>,
    cache: Cache,
    waiting: BTreeMap<Arc<str>, Vec<Option<Arc<Request>>>>,
    joined: Vec<bool>,
    last_joined: Option<usize>,
}

impl Negotiator {
    pub(crate) fn new(ranks: Vec<Rank>, cache_capacity: usize) -> Self {
        let joined = vec![false; ranks.len()];
        Self {
            ranks: ranks.into(),
            cache: Cache::new(cache_capacity),
            waiting: BTreeMap::new(),
            joined,
            last_joined: None,
        }
    }

    /// How a member should say that it has something ready.
    pub(crate) fn item(&self, member: usize, request: &Arc<Request>) -> Item {
        self.cache.find(member, request).map_or_else(|| Item::New(Arc::clone(request)), Item::Known)
    }

    /// Whether everybody says the same names in the same order, and brings the data along.
    pub(crate) fn is_in_step(&self, messages: &[RoundMessage]) -> bool {
        let Some((first, rest)) = messages.split_first() else { return false };
        let brings_data = |message: &RoundMessage| message.has_data && !message.items.is_empty();
        let are_known = first.items.iter().all(|item| matches!(item, Item::Known(_)));
        let says_same = |(member, message): (usize, &RoundMessage)| {
            (are_known && message.items == first.items) || self.names(member + 1, message).eq(self.names(0, first))
        };
        messages.iter().all(brings_data) && rest.iter().enumerate().all(says_same)
    }

    /// The names in a message, for those who look on.
    pub(crate) fn names<'a>(
        &'a self,
        member: usize,
        message: &'a RoundMessage,
    ) -> impl Iterator<Item = Option<&'a str>> {
        message.items.iter().map(move |item| match item {
            Item::New(request) => Some(&*request.name),
            Item::Known(id) => Some(&*self.cache.get(*id)?.get(member)?.as_ref()?.name),
        })
    }

    /// One round: hears all members, and answers what to do, in order.
    pub(crate) fn round(&mut self, messages: &[RoundMessage]) -> Vec<Response> {
        let is_quiet = self.waiting.is_empty() && !self.joined.contains(&true);
        if is_quiet && let Some(responses) = self.repeat(messages) {
            return responses;
        }
        let mut ready = Vec::new();
        for (member, message) in messages.iter().enumerate() {
            for item in &message.items {
                if let Some(request) = self.expand(member, item) {
                    ready.extend(self.hear(member, request));
                }
            }
        }
        ready.extend(self.ready_by_join(&ready));
        let mut responses: Vec<Response> = ready.iter().filter_map(|name| self.respond(name)).collect();
        responses.extend(self.all_joined());
        responses
    }

    /// The steady state: everybody says the same known things.
    fn repeat(&mut self, messages: &[RoundMessage]) -> Option<Vec<Response>> {
        let (first, rest) = messages.split_first()?;
        if rest.iter().any(|message| message.items != first.items) {
            return None;
        }
        let known = |item: &Item| match item {
            Item::Known(id) => go(Arc::clone(self.cache.get(*id)?), &self.ranks),
            Item::New(_) => None,
        };
        let responses = first.items.iter().map(known).collect::<Option<_>>()?;
        for item in &first.items {
            if let Item::Known(id) = item {
                self.cache.touch(*id);
            }
        }
        Some(responses)
    }

    fn expand(&self, member: usize, item: &Item) -> Option<Arc<Request>> {
        match item {
            Item::New(request) => Some(Arc::clone(request)),
            Item::Known(id) => self.cache.get(*id)?.get(member)?.clone(),
        }
    }

    /// Notes a request; returns its name if it was the last one missing.
    fn hear(&mut self, member: usize, request: Arc<Request>) -> Option<Arc<str>> {
        if request.kind == Kind::Join {
            self.joined[member] = true;
            self.last_joined = Some(member);
            return None;
        }
        let name = Arc::clone(&request.name);
        let size = self.ranks.len();
        let asked = self.waiting.entry(Arc::clone(&name)).or_insert_with(|| vec![None; size]);
        asked[member] = Some(request);
        is_complete(asked, &self.joined).then_some(name)
    }

    /// What has become ready since those who have not asked have joined.
    fn ready_by_join(&self, ready: &[Arc<str>]) -> Vec<Arc<str>> {
        if !self.joined.contains(&true) {
            return Vec::new();
        }
        let complete = self.waiting.iter().filter(|(_, asked)| is_complete(asked, &self.joined));
        complete.map(|(name, _)| Arc::clone(name)).filter(|name| !ready.contains(name)).collect()
    }

    fn respond(&mut self, name: &Arc<str>) -> Option<Response> {
        let asked = self.waiting.remove(name)?;
        let by_rank = self.ranks.iter().zip(&asked);
        let requests = by_rank.filter_map(|(rank, request)| Some((*rank, request.as_deref()?)));
        let requests: Vec<(Rank, &Request)> = requests.collect();
        let has_joined = requests.len() < self.ranks.len();
        let decision = validate(&Asked { requests: &requests, has_joined });
        let kind = requests.first()?.1.kind;
        let agreed: Agreed = asked.into();
        let may_repeat = !has_joined && !matches!(kind, Kind::AddSet | Kind::RemoveSet);
        match &decision {
            Ok(()) if may_repeat => self.cache.put(name, Arc::clone(&agreed)),
            Ok(()) => {}
            Err(_) => self.cache.remove(name),
        }
        let decision = decision.map_or_else(Decision::Refused, |()| Decision::Go);
        Some(Response { name: Arc::clone(name), kind, agreed, decision, members: Arc::clone(&self.ranks) })
    }

    fn all_joined(&mut self) -> Option<Response> {
        let last = self.last_joined.filter(|_| self.joined.iter().all(|joined| *joined))?;
        self.joined.fill(false);
        self.last_joined = None;
        let decision = Decision::AllJoined(self.ranks[last]);
        let members = Arc::clone(&self.ranks);
        Some(Response { name: JOIN.into(), kind: Kind::Join, agreed: Arc::new([]), decision, members })
    }

    /// What waits, who has asked for it, and who has not.
    pub(crate) fn stalled(&self) -> BTreeMap<&str, Stalled> {
        let stalled = |asked: &Vec<Option<Arc<Request>>>| {
            let mut stalled = Stalled::default();
            for (member, rank) in self.ranks.iter().enumerate() {
                match &asked[member] {
                    Some(_) => stalled.asked.push(*rank),
                    None if self.joined[member] => {}
                    None => stalled.missing.push(*rank),
                }
            }
            stalled
        };
        self.waiting.iter().map(|(name, asked)| (&**name, stalled(asked))).collect()
    }

    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }
}

/// The name of all joins: a rank has one at most.
pub(crate) const JOIN: &str = "join.noname";

fn go(agreed: Agreed, members: &Arc<[Rank]>) -> Option<Response> {
    let first = agreed.iter().flatten().next()?;
    let (name, kind) = (Arc::clone(&first.name), first.kind);
    Some(Response { name, kind, agreed, decision: Decision::Go, members: Arc::clone(members) })
}

fn is_complete(asked: &[Option<Arc<Request>>], joined: &[bool]) -> bool {
    asked.iter().zip(joined).all(|(request, joined)| request.is_some() || *joined)
}
