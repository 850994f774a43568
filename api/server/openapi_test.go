package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

// routes are all that there are, but for the document itself.
var allRoutes = []string{
	"GET /healthz", "GET /metrics", "GET /readyz", "GET /v1/events", "GET /v1/jobs", "GET /v1/jobs/{id}", "GET /v1/jobs/{id}/logs", "GET /v1/jobs/{id}/why", "GET /v1/me",
	"GET /v1/log", "GET /v1/node", "GET /v1/nodes", "GET /v1/status", "GET /v1/task/allocation", "GET /v1/task/order",
	"POST /v1/jobs", "POST /v1/jobs/{id}/cancel", "POST /v1/jobs/{id}/hold", "POST /v1/jobs/{id}/release", "POST /v1/jobs/{id}/requeue", "POST /v1/jobs/{id}/resize",
	"GET /v1/policies", "GET /v1/forecast", "POST /v1/plan", "POST /v1/jobs/{id}/input", "GET /v1/fsck", "POST /v1/fsck", "POST /v1/node/drain", "POST /v1/node/reclaim", "POST /v1/task/report", "PUT /v1/policy",
}

// The document that is served is the one in docs, has every route, and holds
// together.
func TestOpenAPI(t *testing.T) {
	r := start(t, nil)
	code, body := r.ask(t, "GET", "/openapi.json", "")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	golden := filepath.Join("..", "..", "docs", "openapi.json")
	if *update {
		ok(t, os.WriteFile(golden, []byte(body), 0o644))
	}
	want, err := os.ReadFile(golden)
	ok(t, err)
	if body != string(want) {
		t.Errorf("%s is not what is served: run go test ./api/server -run OpenAPI -update, and look at what changed", golden)
	}
	var doc map[string]any
	ok(t, json.Unmarshal([]byte(body), &doc))
	if doc["openapi"] != "3.1.0" {
		t.Errorf("version %v", doc["openapi"])
	}
	var routes, ids []string
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			route := strings.ToUpper(method) + " " + path
			routes = append(routes, route)
			ids = append(ids, checkOperation(t, route, path, op.(map[string]any)))
		}
	}
	slices.Sort(routes)
	if !slices.Equal(routes, slices.Sorted(slices.Values(allRoutes))) {
		t.Errorf("routes\n%s", strings.Join(routes, "\n"))
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(routes) {
		t.Errorf("ids of operations are not their own: %q", ids)
	}
	checkRefs(t, doc, doc)
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{"Seconds", "Bytes", "Range", "Tasks"} {
		s, there := schemas[name].(map[string]any)
		if !there || len(s["oneOf"].([]any)) != 2 || s["title"] == "" {
			t.Errorf("%s is described as %v", name, s)
		}
	}
	for _, name := range []string{"JobSpec", "Job", "Why", "Node", "Status", "Event", "Report", "Order", "Allocation"} {
		if schemas[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
	code, text := r.ask(t, "GET", "/openapi.yaml", "")
	var fromYAML any
	if err := yaml.Unmarshal([]byte(text), &fromYAML); code != 200 || err != nil {
		t.Errorf("%d %v", code, err)
	}
}

// checkOperation holds one operation against the rules of OpenAPI that huma
// leaves to its users.
func checkOperation(t *testing.T, route, path string, op map[string]any) (id string) {
	if len(op["responses"].(map[string]any)) == 0 || op["summary"] == nil || len(op["tags"].([]any)) == 0 {
		t.Errorf("%s lacks something: %v", route, slices.Sorted(maps.Keys(op)))
	}
	var declared []string
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		if p := p.(map[string]any); p["in"] == "path" {
			declared = append(declared, fmt.Sprintf("{%v}", p["name"]))
			if p["required"] != true {
				t.Errorf("%s: a part of the path is optional", route)
			}
		}
	}
	if inPath := regexp.MustCompile(`\{[^}]*\}`).FindAllString(path, -1); !slices.Equal(inPath, declared) {
		t.Errorf("%s: %q is in the path, %q is declared", route, inPath, declared)
	}
	return op["operationId"].(string)
}

// checkRefs follows every reference, and every name of a way to be known.
func checkRefs(t *testing.T, doc map[string]any, v any) {
	walk(v, func(key, value string) {
		if key != "$ref" {
			return
		}
		at := any(doc)
		for _, part := range strings.Split(strings.TrimPrefix(value, "#/"), "/") {
			inner, is := at.(map[string]any)
			if !is || inner[part] == nil {
				t.Errorf("%s leads nowhere", value)
				return
			}
			at = inner[part]
		}
	})
}

// docs/api.md tells of every route, and of no other.
func TestAPIPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	ok(t, err)
	var told []string
	for _, m := range regexp.MustCompile("`((?:GET|POST|PUT|DELETE|PATCH) /[^` ?]*)").FindAllStringSubmatch(string(text), -1) {
		told = append(told, m[1])
	}
	slices.Sort(told)
	want := append([]string{"GET /openapi.json", "GET /openapi.yaml"}, allRoutes...)
	slices.Sort(want)
	if told = slices.Compact(told); !slices.Equal(told, want) {
		t.Errorf("the page tells of\n%s\nthere are\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	for _, kind := range []string{"400", "401", "403", "404", "405", "409", "413", "415", "503", "500"} {
		if !strings.Contains(string(text), "| "+kind+" |") {
			t.Errorf("the page does not tell of status %s", kind)
		}
	}
}

// Answers are as the document describes them.
func TestAnswersAsDocumented(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 2)
	r.fake.change(func() {
		fill(reflect.ValueOf(&r.fake.jobs[1].Job).Elem(), rand.New(rand.NewPCG(1, 2)))
		r.fake.jobs[1].ID, r.fake.jobs[1].Progress.Rank, r.fake.jobs[1].Limit = "2", 0, 1
	})
	registry := r.api.OpenAPI().Components.Schemas
	for path, schema := range map[string]string{
		"/v1/jobs": "JobList", "/v1/jobs/1": "Job", "/v1/jobs/2": "Job", "/v1/jobs/1/why": "Why", "/v1/node": "Node", "/v1/nodes?where=zone&state=up,down": "NodeList", "/v1/status": "Status",
		"/v1/task/allocation": "Allocation", "/v1/task/order?wait=0": "Order", "/v1/jobs/77": "ErrorModel", "/v1/jobs?x=y": "ErrorModel",
	} {
		_, body := ask(t, r.http, "GET", "http://norn"+path, "", "token-1")
		var v any
		ok(t, json.Unmarshal([]byte(body), &v))
		var res huma.ValidateResult
		huma.Validate(registry, registry.Map()[schema], huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, &res)
		for _, e := range res.Errors {
			t.Errorf("%s is no %s: %v", path, schema, e)
		}
	}
}
