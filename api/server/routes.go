package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/web"
)

// apiVersion is the version of the routes and of what they say.
const apiVersion = "1"

// about is what the document says of the API as a whole.
const about = "Jobs, the machine and events of a running Norn. It is served on a Unix socket, where the kernel says who calls, " +
	"and where it is configured on TCP, where a token does. Errors are problems of RFC 9457; detail is a sentence for a reader. " +
	"Moments are RFC 3339, spans are seconds, memory is bytes."

// Words that group routes in the document.
const (
	tagJobs    = "jobs"
	tagMachine = "machine"
	tagTasks   = "tasks"
	tagDaemon  = "daemon"
)

// strictNames has huma tell names of fields apart by their letters' case, as
// its own check of values does; it is a switch of the whole package.
var strictNames = sync.OnceFunc(func() { huma.ValidateStrictCasing = true })

// routes makes every route and the document of them.
func (s *Server) routes() error {
	strictNames()
	s.mux = http.NewServeMux()
	s.api = humago.New(s.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Norn", Version: apiVersion, Description: about},
			Components: &huma.Components{
				Schemas: newRegistry(),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"caller": {Type: "http", Scheme: "bearer", Description: "Token of a caller over TCP. The Unix socket needs none."},
					"task":   {Type: "http", Scheme: "bearer", Description: "Token of a run, which its tasks find in NORN_TOKEN."},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": jsonFormat(), "json": jsonFormat()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.speak},
	})
	s.jobRoutes()
	s.streamRoutes()
	s.machineRoutes()
	s.policyRoutes()
	s.fsckRoutes()
	s.taskRoutes()
	s.signsOfLife()
	if s.Metrics {
		if err := s.metricsRoute(); err != nil {
			return err
		}
	}
	s.document()
	s.mux.Handle("GET /{$}", web.Page())
	s.mux.Handle("GET /web/", web.Page())
	return nil
}

// register makes a route of a function that answers for a caller. Errors of the
// function are those of the backend.
func register[I, O any](s *Server, op huma.Operation, answer func(context.Context, Caller, *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // takeBody has seen to it
	if op.Security == nil {
		op.Security = []map[string][]string{{}, {"caller": {}}}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := answer(ctx, requestOf(ctx).caller, in)
		return out, s.refuse(ctx, err)
	})
}

// nothing is the input or output of a route without any.
type nothing struct{}

// machineRoutes are those of the machine, the policy and the daemon as a whole.
func (s *Server) machineRoutes() {
	register(s, huma.Operation{
		OperationID: "node", Method: http.MethodGet, Path: "/v1/node", Tags: []string{tagMachine},
		Summary: "Describe the machine",
	}, func(ctx context.Context, _ Caller, _ *nothing) (*struct{ Body api.Node }, error) {
		n, err := s.Backend.Node(ctx)
		return &struct{ Body api.Node }{n}, err
	})
	register(s, huma.Operation{
		OperationID: "nodes", Method: http.MethodGet, Path: "/v1/nodes", Tags: []string{tagMachine},
		Summary: "List the nodes", Description: "By name. On one machine it is the only one.",
	}, func(ctx context.Context, c Caller, in *nodesInput) (*struct{ Body NodeList }, error) {
		nodes, err := s.Backend.Nodes(ctx, c, api.NodeQuery{Names: in.Names, Pools: in.Pools, Types: in.Types, States: in.States, Where: in.Where, Devices: in.Devices})
		if nodes == nil {
			nodes = []api.Node{} // [] in JSON, not null
		}
		return &struct{ Body NodeList }{NodeList{nodes}}, err
	})
	register(s, huma.Operation{
		OperationID: "drain", Method: http.MethodPost, Path: "/v1/node/drain", Tags: []string{tagMachine},
		Summary: "Put the machine, devices or nodes out of use or back", Description: "For operators.",
	}, func(ctx context.Context, c Caller, in *struct{ Body api.Drain }) (*nothing, error) {
		if err := operator(c, "draining"); err != nil {
			return nil, err
		}
		return nil, s.Backend.Drain(ctx, c, in.Body)
	})
	register(s, huma.Operation{
		OperationID: "reclaim", Method: http.MethodPost, Path: "/v1/node/reclaim", Tags: []string{tagMachine},
		Summary: "Take the machine, devices or nodes back from the jobs there, or lend them", Description: "For operators.",
	}, func(ctx context.Context, c Caller, in *struct{ Body api.Reclaim }) (*struct{ Body api.Reclaimed }, error) {
		if err := operator(c, "taking devices back"); err != nil {
			return nil, err
		}
		if err := in.Body.Check(); err != nil {
			return nil, err
		}
		meant, err := s.Backend.Reclaim(ctx, c, in.Body)
		if meant == nil {
			meant = []string{} // [] in JSON, not null
		}
		return &struct{ Body api.Reclaimed }{api.Reclaimed{Devices: meant}}, err
	})
	register(s, huma.Operation{
		OperationID: "status", Method: http.MethodGet, Path: "/v1/status", Tags: []string{tagDaemon},
		Summary: "The whole at one glance",
	}, func(ctx context.Context, _ Caller, _ *nothing) (*struct{ Body api.Status }, error) {
		st, err := s.Backend.Status(ctx)
		return &struct{ Body api.Status }{st}, err
	})
	register(s, huma.Operation{
		OperationID: "me", Method: http.MethodGet, Path: "/v1/me", Tags: []string{tagDaemon},
		Summary: "Who asks, and what she may",
	}, func(_ context.Context, c Caller, _ *nothing) (*struct{ Body api.Me }, error) {
		return &struct{ Body api.Me }{api.Me{User: c.User, Operator: c.Operator}}, nil
	})
}

// NodeList is a list of nodes.
type NodeList struct {
	Nodes []api.Node `json:"nodes" nullable:"false"`
}

// nodesInput selects nodes: an api.NodeQuery as a URL has it.
type nodesInput struct {
	Names   []string `query:"name" maxItems:"10000" maxLength:"253" doc:"With commas between them; * stands for any letters."`
	Pools   []string `query:"pool" maxItems:"1000" maxLength:"200" doc:"With commas between them."`
	Types   []string `query:"type" maxItems:"100" maxLength:"200" doc:"Of GPUs, with commas between them."`
	States  []string `query:"state" maxItems:"4" enum:"up,draining,drained,down" doc:"With commas between them; draining: drained, and jobs still run there."`
	Where   string   `query:"where" maxLength:"16384" doc:"Condition on labels: zone in (a,b), spot."`
	Devices bool     `query:"devices" doc:"Tell of each device, too."`
}

// fsckRoutes hold what is kept against itself.
func (s *Server) fsckRoutes() {
	for _, r := range []struct {
		id, method, summary string
		repair              bool
	}{
		{"fsck", http.MethodGet, "Check what is kept", false},
		{"repair", http.MethodPost, "Check what is kept, and mend what can be mended", true},
	} {
		register(s, huma.Operation{
			OperationID: r.id, Method: r.method, Path: "/v1/fsck", Tags: []string{tagDaemon},
			Summary: r.summary, Description: "For operators. It may be repeated.",
		}, func(ctx context.Context, c Caller, _ *nothing) (*struct{ Body api.Fsck }, error) {
			if err := operator(c, "checking what norn keeps"); err != nil {
				return nil, err
			}
			out, err := s.Backend.Fsck(ctx, c, r.repair)
			return &struct{ Body api.Fsck }{out}, err
		})
	}
}

// taskRoutes are those of training processes, who come with the token of their run.
func (s *Server) taskRoutes() {
	own := func(op huma.Operation) huma.Operation {
		op.Tags, op.Security = []string{tagTasks}, []map[string][]string{{"task": {}}}
		return op
	}
	type order struct{ Body api.Order }
	register(s, own(huma.Operation{
		OperationID: "allocation", Method: http.MethodGet, Path: "/v1/task/allocation", Summary: "What the task may use",
	}), func(ctx context.Context, _ Caller, _ *nothing) (*struct{ Body api.Allocation }, error) {
		a, err := requestOf(ctx).task.Allocation(ctx)
		return &struct{ Body api.Allocation }{a}, err
	})
	register(s, own(huma.Operation{
		OperationID: "report", Method: http.MethodPost, Path: "/v1/task/report", Summary: "Tell progress, and hear what to do",
	}), func(ctx context.Context, _ Caller, in *struct{ Body api.Report }) (*order, error) {
		o, err := requestOf(ctx).task.Report(ctx, in.Body)
		return &order{o}, err
	})
	register(s, own(huma.Operation{
		OperationID: "order", Method: http.MethodGet, Path: "/v1/task/order", Summary: "What the task shall do",
		Description: "Answers at once when that is something else than go-on, or as soon as it is, and with go-on when the wait is over.",
	}), func(ctx context.Context, _ Caller, in *orderInput) (*order, error) {
		task := requestOf(ctx).task
		ctx, cancel := s.lasting(ctx)
		defer cancel()
		ctx, done := context.WithTimeout(ctx, time.Duration(in.Wait)*time.Second)
		defer done()
		o, err := task.Order(ctx)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			o, err = api.Order{Kind: api.GoOn}, nil
		}
		return &order{o}, err
	})
}

type orderInput struct {
	Wait int `query:"wait" minimum:"0" maximum:"300" default:"30" doc:"Seconds to wait for another order than go-on."`
}

// signsOfLife are for what watches over the daemon.
func (s *Server) signsOfLife() {
	s.plain("healthz", "/healthz", "Whether the daemon is alive", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	s.plain("readyz", "/readyz", "Whether the daemon has recovered and can take work", func(w http.ResponseWriter, _ *http.Request) {
		err := s.Backend.Ready()
		if s.closing.Err() != nil {
			err = errors.New("norn is stopping")
		}
		if err != nil {
			w.(*answer).problem(http.StatusServiceUnavailable, err.Error())
			return
		}
		io.WriteString(w, "ready\n")
	})
}

// plain makes a route that answers with text, and puts it into the document.
func (s *Server) plain(id, path, summary string, h http.HandlerFunc) {
	s.api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tagDaemon}, Summary: summary,
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: textContent("text/plain")}},
	})
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		h(w, r)
	})
}

func textContent(media string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{media: {Schema: &huma.Schema{Type: huma.TypeString}}}
}

// document serves the document of all routes; it is made when it is first asked
// for.
func (s *Server) document() {
	serve := func(path, media string, text func() ([]byte, error)) {
		made := sync.OnceValues(text)
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			b, err := made()
			if err != nil {
				panic(err)
			}
			w.Header().Set("Content-Type", media)
			w.Write(b)
		})
	}
	serve("/openapi.json", "application/openapi+json", s.openAPI)
	serve("/openapi.yaml", "application/openapi+yaml", s.api.OpenAPI().YAML)
}

// openAPI is the document of all routes.
func (s *Server) openAPI() ([]byte, error) {
	b, err := json.MarshalIndent(s.api.OpenAPI(), "", "  ")
	return append(b, '\n'), err
}
