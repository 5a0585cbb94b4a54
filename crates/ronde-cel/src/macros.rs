//! Expands the macros of CEL: `has`, `all`, `exists`, `map`, `filter`, their two-variable forms, `optMap`.
//!
//! The trees are those of the real server, because estimated and actual costs are counted on them.

use std::sync::Arc;

use super::{
    ast::{ACCUMULATOR, Call, Comprehension, Element, Entry, Expr, Kind, Literal, Select},
    nodes::{Halt, Nodes},
};

type Expand = Result<Expr, Halt>;

/// The node for a call, or for what the macro of that name makes of it.
pub(super) fn call(nodes: &mut Nodes, offset: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expand {
    let mut maker = Maker { nodes, offset };
    let Some(target) = target else {
        return if function == "has" && args.len() == 1 {
            maker.has(args)
        } else {
            maker.nodes.call(offset, function, args)
        };
    };
    match (function, args.len()) {
        ("all" | "exists" | "exists_one", 2 | 3) | ("existsOne", 3) => maker.quantifier(function, target, args),
        ("map", 2 | 3) | ("filter", 2) => maker.map_or_filter(function, target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => maker.transform(function, target, args),
        ("optMap" | "optFlatMap", 2) => maker.optional_map(function, target, args),
        _ => {
            let call = Call { function: Arc::from(function), target: Some(target), args };
            maker.nodes.make(offset, Kind::Call(Box::new(call)))
        }
    }
}

/// Makes nodes that all stand at the place of the macro.
struct Maker<'n> {
    nodes: &'n mut Nodes,
    offset: u32,
}

/// The loop variables of a macro: one, or index and value.
struct Variables {
    first: Arc<str>,
    second: Option<Arc<str>>,
}

impl Maker<'_> {
    fn make(&mut self, kind: Kind) -> Expand {
        self.nodes.make(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expand {
        self.make(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &Arc<str>) -> Expand {
        self.make(Kind::Ident(Arc::clone(name)))
    }

    fn accumulator(&mut self) -> Expand {
        self.make(Kind::Ident(Arc::from(ACCUMULATOR)))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expand {
        self.nodes.call(self.offset, function, args)
    }

    fn method(&mut self, function: &str, target: Expr) -> Expand {
        let call = Call { function: Arc::from(function), target: Some(target), args: Vec::new() };
        self.make(Kind::Call(Box::new(call)))
    }

    fn fold(&mut self, range: Expr, variables: Variables, parts: [Expr; 4]) -> Expand {
        let [init, condition, step, result] = parts;
        self.make(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: variables.first,
            second: variables.second,
            accumulator: Arc::from(ACCUMULATOR),
            init,
            condition,
            step,
            result,
        })))
    }

    fn has(&mut self, mut args: Vec<Expr>) -> Expand {
        let arg = args.remove(0);
        let offset = self.nodes.offset(&arg);
        match arg.kind {
            Kind::Select(select) => self.make(Kind::Select(Box::new(Select { test_only: true, ..*select }))),
            _ => self.nodes.broken(offset, "invalid argument to has() macro"),
        }
    }

    /// The loop variables, which are the first arguments; `Err` holds the node that stands in for a broken macro.
    fn variables(&mut self, args: &mut Vec<Expr>, two: bool, message: &str) -> Result<Result<Variables, Expr>, Halt> {
        let names: Vec<Expr> = args.drain(..if two { 2 } else { 1 }).collect();
        let mut variables = Vec::new();
        for name in &names {
            let offset = self.nodes.offset(name);
            let problem = match name.ident() {
                None => message.to_owned(),
                Some(name) if **name == *"__result__" => {
                    "iteration variable overwrites accumulator variable".to_owned()
                }
                Some(name) if variables.contains(name) => format!("duplicate variable name: {name}"),
                Some(name) => {
                    variables.push(Arc::clone(name));
                    continue;
                }
            };
            return Ok(Err(self.nodes.broken(offset, problem)?));
        }
        let second = if two { variables.pop() } else { None };
        let first = variables.pop().expect("a name was pushed for each argument");
        Ok(Ok(Variables { first, second }))
    }

    fn quantifier(&mut self, function: &str, range: Expr, mut args: Vec<Expr>) -> Expand {
        let two = args.len() == 3;
        let variables = match self.variables(&mut args, two, "argument must be a simple name")? {
            Ok(variables) => variables,
            Err(broken) => return Ok(broken),
        };
        let test = args.remove(0);
        let parts = match function {
            "all" => {
                let accumulator = self.accumulator()?;
                let condition = self.call("@not_strictly_false", vec![accumulator])?;
                let accumulator = self.accumulator()?;
                let step = self.call("_&&_", vec![accumulator, test])?;
                [self.literal(Literal::Bool(true))?, condition, step, self.accumulator()?]
            }
            "exists" => {
                let accumulator = self.accumulator()?;
                let negated = self.call("!_", vec![accumulator])?;
                let condition = self.call("@not_strictly_false", vec![negated])?;
                let accumulator = self.accumulator()?;
                let step = self.call("_||_", vec![accumulator, test])?;
                [self.literal(Literal::Bool(false))?, condition, step, self.accumulator()?]
            }
            _ => {
                let counted = [self.accumulator()?, self.literal(Literal::Int(1))?];
                let counted = self.call("_+_", counted.into())?;
                let unchanged = self.accumulator()?;
                let step = self.call("_?_:_", vec![test, counted, unchanged])?;
                let compared = [self.accumulator()?, self.literal(Literal::Int(1))?];
                let result = self.call("_==_", compared.into())?;
                [self.literal(Literal::Int(0))?, self.literal(Literal::Bool(true))?, step, result]
            }
        };
        self.fold(range, variables, parts)
    }

    fn map_or_filter(&mut self, function: &str, range: Expr, mut args: Vec<Expr>) -> Expand {
        let variables = match self.variables(&mut args, false, "argument is not an identifier")? {
            Ok(variables) => variables,
            Err(broken) => return Ok(broken),
        };
        let added = if function == "filter" { self.ident(&variables.first)? } else { args.pop().expect("two or more") };
        let step = self.append(added)?;
        let step = self.only_if(args.pop(), step)?;
        let init = self.make(Kind::List(Vec::new()))?;
        let parts = [init, self.literal(Literal::Bool(true))?, step, self.accumulator()?];
        self.fold(range, variables, parts)
    }

    fn transform(&mut self, function: &str, range: Expr, mut args: Vec<Expr>) -> Expand {
        let variables = match self.variables(&mut args, true, "argument must be a simple name")? {
            Ok(variables) => variables,
            Err(broken) => return Ok(broken),
        };
        let transformed = args.pop().expect("three or four arguments");
        let (init, step) = match function {
            "transformList" => (Kind::List(Vec::new()), self.append(transformed)?),
            "transformMap" => {
                let args = vec![self.accumulator()?, self.ident(&variables.first)?, transformed];
                (Kind::Map(Vec::new()), self.call("cel.@mapInsert", args)?)
            }
            _ => {
                let args = vec![self.accumulator()?, transformed];
                (Kind::Map(Vec::new()), self.call("cel.@mapInsert", args)?)
            }
        };
        let step = self.only_if(args.pop(), step)?;
        let parts = [self.make(init)?, self.literal(Literal::Bool(true))?, step, self.accumulator()?];
        self.fold(range, variables, parts)
    }

    /// `accumulator + [added]`
    fn append(&mut self, added: Expr) -> Expand {
        let list = self.make(Kind::List(vec![Element { value: added, optional: false }]))?;
        let accumulator = self.accumulator()?;
        self.call("_+_", vec![accumulator, list])
    }

    /// `condition ? step : accumulator`
    fn only_if(&mut self, condition: Option<Expr>, step: Expr) -> Expand {
        let Some(condition) = condition else { return Ok(step) };
        let unchanged = self.accumulator()?;
        self.call("_?_:_", vec![condition, step, unchanged])
    }

    fn optional_map(&mut self, function: &str, target: Expr, mut args: Vec<Expr>) -> Expand {
        let mapped = args.pop().expect("two arguments");
        let offset = self.nodes.offset(&args[0]);
        let Some(name) = args[0].ident().cloned() else {
            return self.nodes.broken(offset, format!("{function}() variable name must be a simple identifier"));
        };
        let copy = self.copy(&target)?;
        let present = self.method("hasValue", target)?;
        let value = self.method("value", copy)?;
        let fold = Comprehension {
            range: self.make(Kind::List(Vec::new()))?,
            variable: Arc::from("#unused"),
            second: None,
            accumulator: Arc::clone(&name),
            init: value,
            condition: self.literal(Literal::Bool(false))?,
            step: self.ident(&name)?,
            result: mapped,
        };
        let mut bound = self.make(Kind::Comprehension(Box::new(fold)))?;
        if function == "optMap" {
            bound = self.call("optional.of", vec![bound])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![present, bound, none])
    }

    /// The same tree with nodes of its own.
    fn copy(&mut self, expr: &Expr) -> Expand {
        let kind = match &expr.kind {
            kind @ (Kind::Literal(_) | Kind::Ident(_) | Kind::Struct(_)) => kind.clone(),
            Kind::Select(select) => {
                let operand = self.copy(&select.operand)?;
                Kind::Select(Box::new(Select {
                    operand,
                    field: Arc::clone(&select.field),
                    test_only: select.test_only,
                }))
            }
            Kind::Call(call) => Kind::Call(Box::new(Call {
                function: Arc::clone(&call.function),
                target: call.target.as_ref().map(|target| self.copy(target)).transpose()?,
                args: call.args.iter().map(|arg| self.copy(arg)).collect::<Result<_, _>>()?,
            })),
            Kind::List(elements) => Kind::List(
                elements
                    .iter()
                    .map(|e| Ok(Element { value: self.copy(&e.value)?, optional: e.optional }))
                    .collect::<Result<_, Halt>>()?,
            ),
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|e| Ok(Entry { key: self.copy(&e.key)?, value: self.copy(&e.value)?, optional: e.optional }))
                    .collect::<Result<_, Halt>>()?,
            ),
            Kind::Comprehension(fold) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range)?,
                variable: Arc::clone(&fold.variable),
                second: fold.second.clone(),
                accumulator: Arc::clone(&fold.accumulator),
                init: self.copy(&fold.init)?,
                condition: self.copy(&fold.condition)?,
                step: self.copy(&fold.step)?,
                result: self.copy(&fold.result)?,
            })),
        };
        let offset = self.nodes.offset(expr);
        self.nodes.make(offset, kind)
    }
}
