#include "cleave/discover/discover.h"

namespace cleave {

namespace {

// docs/discovery-report.schema.json is the same text.
constexpr std::string_view kSchema = R"schema({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "What cleave discover found about an operator",
  "type": "object",
  "required": [
    "operator", "signature", "analysis", "sample_inputs_tested", "unconditional_rules", "conditional_rules",
    "adversarial_generators", "refuted", "versions", "seed", "tolerance"
  ],
  "properties": {
    "operator": {"type": "string", "minLength": 1},
    "signature": {"type": "string", "description": "As the operator's library writes it; empty if it is not known."},
    "analysis": {
      "type": "object",
      "required": ["category", "dim_parameter", "mathematical_properties"],
      "properties": {
        "category": {
          "enum": [
            "pointwise", "reduction", "matmul-like", "cross-dim", "view", "index", "sort", "random", "factory", "other"
          ]
        },
        "dim_parameter": {"type": ["string", "null"], "description": "The attribute that names a dimension."},
        "parameters": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["name", "role", "how"],
            "properties": {
              "name": {"type": "string"},
              "role": {"enum": ["dim", "keepdim", "other"]},
              "how": {"type": "string", "minLength": 1}
            }
          }
        },
        "mathematical_properties": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["name", "about", "how", "tests"],
            "properties": {
              "name": {"type": "string", "minLength": 1},
              "about": {"type": "string", "description": "An operand, a dimension or the result."},
              "how": {"enum": ["proved", "tested"]},
              "tests": {"type": "integer", "minimum": 1}
            }
          }
        },
        "deterministic": {"type": "boolean"},
        "reason": {"type": "string"},
        "depends_on_attributes": {"type": "array", "items": {"type": "string"}}
      }
    },
    "sample_inputs_tested": {
      "type": "object",
      "required": ["shapes", "dtypes", "world_size", "generators", "kwargs_swept"],
      "properties": {
        "shapes": {
          "type": "array",
          "description": "Of each call, the shape of every operand.",
          "items": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}
        },
        "dtypes": {"type": "array", "items": {"type": "string"}},
        "world_size": {"type": "array", "items": {"type": "integer", "minimum": 2}},
        "generators": {"$ref": "#/$defs/generators"},
        "kwargs_swept": {"type": "object", "additionalProperties": {"type": "array"}},
        "calls": {"type": "array", "items": {"type": "string"}}
      }
    },
    "unconditional_rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
    "conditional_rules": {"type": "array", "items": {"$ref": "#/$defs/conditional_rule"}},
    "implied_rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
    "adversarial_generators": {"$ref": "#/$defs/generators"},
    "refuted": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["inputs", "output", "witness"],
        "properties": {
          "inputs": {"$ref": "#/$defs/placements"},
          "output": {"$ref": "#/$defs/placement"},
          "result": {"type": "integer", "minimum": 0},
          "with": {"type": "string", "description": "The attributes of a call outside of a rule's condition."},
          "verdict": {"enum": ["refuted", "rejected"]},
          "witness": {"type": "string", "minLength": 1, "description": "cleave discover --replay runs it again."}
        }
      }
    },
    "untestable": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["inputs", "output", "reason"],
        "properties": {
          "inputs": {"$ref": "#/$defs/placements"},
          "output": {"$ref": "#/$defs/placement"},
          "reason": {"type": "string"}
        }
      }
    },
    "versions": {"type": "object", "additionalProperties": {"type": "string"}},
    "seed": {"type": "integer", "minimum": 0},
    "tolerance": {"type": "number", "minimum": 0},
    "counts": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    "seconds": {"type": "number", "minimum": 0}
  },
  "$defs": {
    "placement": {"type": "string", "pattern": "^(R|S\\((d([+-][0-9]+)?|-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*)\\)|P\\((sum|avg|max|min|prod|and|or)\\))$"},
    "placements": {"type": "array", "items": {"$ref": "#/$defs/placement"}},
    "generators": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["name", "description"],
        "properties": {"name": {"type": "string", "minLength": 1}, "description": {"type": "string"}}
      }
    },
    "rule": {
      "type": "object",
      "required": ["inputs", "output", "justification"],
      "properties": {
        "inputs": {"$ref": "#/$defs/placements"},
        "output": {"$ref": "#/$defs/placement"},
        "result": {"type": "integer", "minimum": 0, "description": "Which one, if there are several."},
        "condition": {"type": "string", "minLength": 1},
        "justification": {"type": "string", "minLength": 1},
        "verdict": {"enum": ["proved", "tested"]},
        "tests": {"type": "integer", "minimum": 0}
      }
    },
    "conditional_rule": {
      "type": "object",
      "required": ["inputs", "output", "condition", "justification"],
      "properties": {
        "inputs": {"$ref": "#/$defs/placements"},
        "output": {"$ref": "#/$defs/placement"},
        "condition": {"type": "string", "minLength": 1},
        "justification": {"type": "string", "minLength": 1}
      }
    }
  }
}
)schema";

}  // namespace

std::string_view report_schema() { return kSchema; }

}  // namespace cleave
