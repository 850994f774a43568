package kinds

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/norn-scheduler/norn/job"
)

// object is an object of the API, or a part of one, as decoded JSON.
type object map[string]any

// at is what stands at a path; nil: nothing.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// part is the object at a path; nil: there is none.
func (o object) part(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return m
}

// list is the objects of the list at a path.
func (o object) list(path ...string) ([]object, error) {
	all, _ := o.at(path...).([]any)
	if len(all) > mostParts {
		return nil, fmt.Errorf("%s: %d entries, at most %d are read", strings.Join(path, "."), len(all), mostParts)
	}
	out := make([]object, len(all))
	for i, v := range all {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: entry %d is no object", strings.Join(path, "."), i)
		}
		out[i] = m
	}
	return out, nil
}

// mostParts bounds the lists of parts of an object.
const mostParts = 1000

// text is the text at a path; empty: there is none.
func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

// number is the whole number at a path, or another one where there is none. It fails on
// numbers of pods that cannot be.
func (o object) number(without int32, path ...string) (int32, error) {
	n, told := integer(o.at(path...))
	switch {
	case !told && o.at(path...) == nil:
		return without, nil
	case !told || n < 0 || n > job.MaxTasks:
		return 0, fmt.Errorf("%s is no number from 0 to %d", strings.Join(path, "."), job.MaxTasks)
	}
	return int32(n), nil
}

// integer reads a whole number, as decoders of JSON give it.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case json.Number:
		i, err := strconv.ParseInt(n.String(), 10, 64)
		return i, err == nil
	}
	return 0, false
}

// template reads a pod template.
func (o object) template() (*corev1.PodTemplateSpec, error) {
	if o == nil {
		return nil, fmt.Errorf("it has no pod template")
	}
	out := new(corev1.PodTemplateSpec)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, out); err != nil {
		return nil, fmt.Errorf("pod template: %w", err)
	}
	return out, nil
}
