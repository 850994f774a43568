package server

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/norn-scheduler/norn/api"
)

const schemas = "#/components/schemas/"

// newRegistry knows the types of package api that are written in JSON in a way
// of their own.
func newRegistry() huma.Registry {
	r := huma.NewMapRegistry(schemas, huma.DefaultSchemaNamer)
	own := func(t, as reflect.Type, s *huma.Schema) {
		s.PrecomputeMessages()
		r.Map()[t.Name()] = s
		r.RegisterTypeAlias(t, as)
	}
	own(reflect.TypeFor[api.Seconds](), reflect.TypeFor[secondsSchema](), numberOrText(0,
		"seconds, or text such as 90s, 1h30m or 2d", `^[0-9.]`, 90, "1h30m"))
	own(reflect.TypeFor[api.Bytes](), reflect.TypeFor[bytesSchema](), numberOrText(0,
		"a number of bytes, or text such as 512M or 16GiB", `^[0-9.]`, 1<<30, "16GiB"))
	own(reflect.TypeFor[api.Range](), reflect.TypeFor[rangeSchema](), numberOrText(0,
		"a number of GPUs such as 2 or 0.5, or text such as 1-4, or 1-4:2 to ask for 2 of them", `^[0-9.]+(-[0-9.]+(:[0-9.]+)?)?$`, 2, "1-4"))
	own(reflect.TypeFor[api.Tasks](), reflect.TypeFor[tasksSchema](), numberOrText(1,
		"a number of processes, or per-gpu", `^([0-9]+|per-gpu)$`, 1, "per-gpu"))
	// All fields of a report are optional, whatever their tags say.
	report := r.Schema(reflect.TypeFor[api.Report](), false, "")
	report.Required = nil
	report.PrecomputeMessages()
	return r
}

// numberOrText is the schema of what may be written in two ways.
func numberOrText(least float64, title, pattern string, examples ...any) *huma.Schema {
	longest := 64
	return &huma.Schema{
		Title:    title,
		Examples: examples,
		OneOf: []*huma.Schema{
			{Type: huma.TypeNumber, Minimum: &least},
			{Type: huma.TypeString, Pattern: pattern, MaxLength: &longest},
		},
	}
}

// Stand-ins that have huma refer to the schemas above.
type (
	secondsSchema struct{}
	bytesSchema   struct{}
	rangeSchema   struct{}
	tasksSchema   struct{}
)

func (secondsSchema) Schema(huma.Registry) *huma.Schema { return ref[api.Seconds]() }
func (bytesSchema) Schema(huma.Registry) *huma.Schema   { return ref[api.Bytes]() }
func (rangeSchema) Schema(huma.Registry) *huma.Schema   { return ref[api.Range]() }
func (tasksSchema) Schema(huma.Registry) *huma.Schema   { return ref[api.Tasks]() }

func ref[T any]() *huma.Schema { return &huma.Schema{Ref: schemas + reflect.TypeFor[T]().Name()} }

// schemaAt finds the schema of a part of a body, such as stop.grace or
// after[0].job, or nil.
func (s *Server) schemaAt(op *huma.Operation, path string) *huma.Schema {
	if op == nil || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	here, r := op.RequestBody.Content["application/json"].Schema, s.api.OpenAPI().Components.Schemas
	follow := func() {
		for here != nil && here.Ref != "" {
			here = r.SchemaFromRef(here.Ref)
		}
	}
	follow()
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		switch {
		case here == nil:
			return nil
		case strings.HasSuffix(name, "]"):
			here = here.Items
		default:
			here = here.Properties[name]
		}
		follow()
	}
	return here
}
