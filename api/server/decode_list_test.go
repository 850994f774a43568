package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// fill gives every field below v a value that is not zero.
func fill(v reflect.Value, rng *rand.Rand) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, rng.IntN(60), rng.IntN(1e9), time.FixedZone("", 3600*rng.IntN(3)))))
		return
	case api.Range:
		v.Set(reflect.ValueOf([]api.Range{api.Fixed(0.5), {Least: 1, Most: 4, Ask: 2}, {Least: 1, Most: 4, Ask: 4}}[rng.IntN(3)]))
		return
	case api.Tasks:
		v.Set(reflect.ValueOf([]api.Tasks{{N: 3}, {PerGPU: true}}[rng.IntN(2)]))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"anna", "a \"b\"\\\n\t\x7f", "ä\u2028<&>\U0001F600"}[rng.IntN(3)])
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 + rng.Int64N(1<<30))
	case reflect.Float64:
		v.SetFloat([]float64{0.1, 12345678.25, 1e-9, 1e22, 3}[rng.IntN(5)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), rng)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(2), 2))
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, rng)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), rng)
		}
	default:
		panic("what is a " + v.Type().String() + "?")
	}
}

// A list says what package json would, of every field that a job has, alone and
// together with others.
func TestListAsPackageJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	jobs := []api.Job{{}, {Command: []string{}, Devices: []string{}}, {Priority: -3, GPUTime: 1e-300}}
	for i := range reflect.TypeFor[api.Job]().NumField() {
		var one api.Job
		fill(reflect.ValueOf(&one).Elem().Field(i), rng)
		jobs = append(jobs, one)
	}
	for range 300 {
		var all api.Job
		fill(reflect.ValueOf(&all).Elem(), rng)
		jobs = append(jobs, all)
	}
	var fast bytes.Buffer
	ok(t, encode(&fast, JobList{Jobs: jobs}))
	slow, err := json.Marshal(JobList{Jobs: jobs})
	ok(t, err)
	var have, want struct{ Jobs []map[string]any }
	ok(t, json.Unmarshal(fast.Bytes(), &have))
	ok(t, json.Unmarshal(slow, &want))
	if len(have.Jobs) != len(jobs) {
		t.Fatalf("%d jobs of %d", len(have.Jobs), len(jobs))
	}
	for i := range want.Jobs {
		if !reflect.DeepEqual(have.Jobs[i], want.Jobs[i]) {
			t.Fatalf("job %d is written as\n%v\nwant\n%v", i, have.Jobs[i], want.Jobs[i])
		}
	}
}

// A number that JSON cannot carry is a mistake, not half a list.
func TestListNoNumber(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 3)
	r.fake.jobs[0].CPUs = 1 / zero()
	if code, body := r.ask(t, "GET", "/v1/jobs", ""); code != 500 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := r.ask(t, "GET", "/v1/jobs/1", ""); code != 500 {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := r.ask(t, "GET", "/v1/jobs/2", ""); code != 200 {
		t.Error(fmt.Sprint("the others are harmed: ", code))
	}
}

func zero() float64 { return 0 }
