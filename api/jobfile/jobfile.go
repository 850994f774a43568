// Package jobfile reads jobs as users write them: in YAML or JSON, with the keys of
// api.JobSpec, and the words for moments, memory and other jobs that the command line
// shares. docs/jobs.md describes them.
//
// Nouns: a job file has one job in each document; a moment is a time, or a span before or
// after now.
//
// Units: memory in bytes, written with its unit; spans in seconds, or as in 2h30m.
package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/job"
)

// MaxSize is the size of the largest job file, in bytes.
const MaxSize = 1 << 20

// mostJobs is the largest number of jobs of a file.
const mostJobs = 10_000

// Parse reads jobs written in YAML, one in each document, with the keys of
// api.JobSpec. Unknown keys and values that cannot be read are errors that show
// the line; name is what the errors call the text, and relative moments count
// from now. A job that does not say how many GPUs it needs gets one.
func Parse(name string, text []byte, now time.Time) ([]api.JobSpec, error) {
	fail := func(err error) ([]api.JobSpec, error) { return nil, yamltext.Locate(name, text, err) }
	if len(text) > MaxSize {
		return fail(errors.New("a job file has at most 1 MiB"))
	}
	docs, err := yamltext.Documents(text)
	switch {
	case err != nil:
		return fail(err)
	case len(docs) == 0:
		return fail(errors.New("the file has no job"))
	case len(docs) > mostJobs:
		return fail(fmt.Errorf("more than %d jobs in one file", mostJobs))
	}
	r := &jobReader{now: now}
	specs := make([]api.JobSpec, len(docs))
	for i, doc := range docs {
		specs[i].GPUs = api.Fixed(1)
		r.shape = nil
		if err := r.read(doc, reflect.ValueOf(&specs[i]).Elem(), "a job"); err != nil {
			return fail(err)
		}
		if err := specs[i].CheckShape(); err != nil {
			return fail(yamltext.Fault(r.shape, "%v", err))
		}
	}
	return specs, nil
}

// jobReader reads nodes into values of a job.
type jobReader struct {
	now   time.Time
	shape ast.Node // that of the job which is being read
}

// read takes a node into a value of any type that a job consists of; what says
// what the value is.
func (r *jobReader) read(n ast.Node, v reflect.Value, what string) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		return valueOf(n, what, p, func(text string) (time.Time, error) { return Future(text, r.now) })
	case *api.Bytes:
		return valueOf(n, what, p, ParseMemory)
	case *api.After:
		if _, err := blockText(n); err == nil {
			return valueOf(n, what, p, ParseAfter)
		}
	case json.Unmarshaler:
		text, err := blockText(n)
		if err != nil {
			return err
		}
		quoted, err := json.Marshal(text)
		if err == nil {
			err = p.UnmarshalJSON(quoted)
		}
		return at(n, what, err)
	}
	switch v.Kind() {
	case reflect.Struct:
		known := yamltext.Keys{}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			known[name] = func(n ast.Node) error { return r.read(n, v.Field(i), name) }
		}
		return yamltext.Mapping(n, what, known)
	case reflect.Slice:
		return r.list(n, v, what)
	case reflect.Map:
		return variables(n, v, what)
	}
	if what == "shape" {
		r.shape = n
	}
	text, err := blockText(n)
	if err == nil {
		err = at(n, what, setPlain(v, text))
	}
	if set, ok := places[what]; ok && err == nil {
		err = at(n, what, set(new(job.Demand), text))
	}
	return err
}

// places are the keys that say where a job may be, and what reads them.
var places = map[string]func(*job.Demand, string) error{
	"where": (*job.Demand).SetWhere, "tolerate": (*job.Demand).SetTolerate, "within": (*job.Demand).SetWithin,
}

// at gives an error about a value its place.
func at(n ast.Node, what string, err error) error {
	if err == nil {
		return nil
	}
	return yamltext.Fault(n, "%s: %v", what, err)
}

// valueOf reads a single value by a function that reads text.
func valueOf[T any](n ast.Node, what string, v *T, parse func(string) (T, error)) error {
	text, err := blockText(n)
	if err != nil {
		return err
	}
	*v, err = parse(text)
	return at(n, what, err)
}

// blockText is the text of a single value, which may go over several lines.
func blockText(n ast.Node) (string, error) {
	if block, ok := n.(*ast.LiteralNode); ok && block.Value != nil {
		return block.Value.Value, nil
	}
	return yamltext.Scalar(n)
}

// list reads a list, or one value for a list of one.
func (r *jobReader) list(n ast.Node, v reflect.Value, what string) error {
	entries := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		entries = s.Values
	} else if what == "command" {
		return yamltext.Fault(n, "command must be a list, as in [python, train.py]; for a shell write [sh, -c, '...']")
	}
	for _, e := range entries {
		one := reflect.New(v.Type().Elem()).Elem()
		if err := r.read(e, one, what); err != nil {
			return err
		}
		v.Set(reflect.Append(v, one))
	}
	return nil
}

// variables reads names and texts.
func variables(n ast.Node, v reflect.Value, what string) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return yamltext.Fault(n, "%s must be names with values", what)
	}
	v.Set(reflect.MakeMap(v.Type()))
	for it := m.MapRange(); it.Next(); {
		name := it.Key().GetToken().Value
		if it.Value() == nil {
			return yamltext.Fault(it.Key(), "%s has no value; write \"\" for none", name)
		}
		text, err := blockText(it.Value())
		if err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	}
	return nil
}

// setPlain reads a string, a number or a boolean.
func setPlain(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q: write true or false", text)
		}
		v.SetBool(text == "true")
		return nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(i)
		return nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(f)
		return nil
	}
	return fmt.Errorf("a value of type %s cannot be read", v.Type())
}

// ParseAfter reads a job that must have ended, as in 17, 17:any when it may have failed
// too, or 17:failed when it must have.
func ParseAfter(text string) (api.After, error) {
	job, how, has := strings.Cut(strings.TrimSpace(text), ":")
	if job == "" || has && how != "any" && how != "failed" {
		return api.After{}, fmt.Errorf("%q: write the number of a job, 17:any if it may have failed, 17:failed if it must have, or singleton", text)
	}
	return api.After{Job: job, Any: how == "any", Failed: how == "failed"}, nil
}

// ParseMemory reads an amount of memory. Users of other schedulers write
// megabytes without a unit; that is told before a job is killed for it.
func ParseMemory(text string) (api.Bytes, error) {
	b, err := unit.ParseBytes(text)
	if err == nil && b > 0 && b < unit.MiB {
		return 0, fmt.Errorf("%q means only %s: write the unit, as in 16G or 512M", text, b)
	}
	return api.Bytes(b), err
}
