package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/norn-scheduler/norn/api"
)

// OfJob is the part of a path that names a job.
type OfJob struct {
	ID string `path:"id" maxLength:"317" pattern:"^([0-9]+(_[0-9]+)?|[0-9A-Za-z][-0-9A-Za-z._]*(/[0-9A-Za-z][-0-9A-Za-z._]*)+)$" patternDescription:"the number of a job, such as 17 or 17_3, or its name, such as team-a/bert" doc:"Number of a job, such as 17, or 17_3 of an array; where jobs have names instead, such as team-a/bert, the name, its slash written as %2F."`
}

type submitInput struct{ Body api.JobSpec }

type submitOutput struct {
	Location string `header:"Location"`
	Body     Submitted
}

// Submitted names the jobs that were taken in.
type Submitted struct {
	IDs []string `json:"ids" nullable:"false" doc:"Their numbers, or names, in order; of an array the first is that of the whole, such as 17."`
}

// JobList is a list of jobs.
type JobList struct {
	Jobs []api.Job `json:"jobs" nullable:"false"`
	Next string    `json:"next,omitempty" doc:"Of a page: where the next one begins, for after; none: it was the last one."`
}

// listInput selects jobs: an api.Query as a URL has it.
type listInput struct {
	IDs    []string  `query:"id" maxItems:"1000" maxLength:"317" pattern:"^([0-9]+(_[0-9]+)?|[0-9A-Za-z][-0-9A-Za-z._]*(/[0-9A-Za-z][-0-9A-Za-z._]*)+)$" patternDescription:"the number of a job, such as 17 or 17_3, or its name, such as team-a/bert" doc:"Numbers or names of jobs, with commas between them; of an array without an index: all of its jobs."`
	States []string  `query:"state" maxItems:"100" enum:"held,waiting,assigned,running,stopping,done,failed,cancelled" doc:"With commas between them. One that a job has ended in selects such jobs, too."`
	Users  []string  `query:"user" maxItems:"1000" maxLength:"200" doc:"With commas between them."`
	Tenant string    `query:"tenant" maxLength:"200"`
	Name   string    `query:"name" maxLength:"200"`
	All    bool      `query:"all" doc:"Those that have ended, too."`
	Since  time.Time `query:"since" doc:"Ended, or active, since."`
	Until  time.Time `query:"until" doc:"Submitted before."`
	Limit  int       `query:"limit" minimum:"0" doc:"So many, the last ones; 0: no limit."`
	Page   int       `query:"page" minimum:"0" maximum:"10000" doc:"So many at most, the first ones behind after; 0: all. Not with limit."`
	After  string    `query:"after" maxLength:"400" doc:"Where the page begins: next of the one before; none: at the beginning."`
}

// page lists one page of jobs.
func (s *Server) page(ctx context.Context, c Caller, in *listInput) (out JobList, err error) {
	q := in.query()
	if q.After, err = api.ParseCursor(in.After); err != nil {
		return out, api.Refuse(api.Invalid, "%v", err)
	}
	switch {
	case in.Page == 0 && in.After != "":
		return out, api.Refuse(api.Invalid, "after is for pages: say how many jobs one has, as in page=100")
	case in.Page > 0 && in.Limit > 0:
		return out, api.Refuse(api.Invalid, "page and limit exclude each other")
	case in.Page > 0:
		q.Page = in.Page + 1 // whether there are more
	}
	out.Jobs, err = s.Backend.Jobs(ctx, c, q)
	if in.Page > 0 && len(out.Jobs) > in.Page {
		out.Jobs = out.Jobs[:in.Page]
		out.Next = api.Behind(&out.Jobs[in.Page-1]).String()
	}
	if out.Jobs == nil {
		out.Jobs = []api.Job{} // [] in JSON, not null
	}
	return out, err
}

func (in *listInput) query() api.Query {
	q := api.Query{
		IDs: in.IDs, Users: in.Users, Tenant: in.Tenant, Name: in.Name,
		All: in.All, Since: in.Since, Until: in.Until, Limit: in.Limit,
	}
	for _, name := range in.States {
		q.States = append(q.States, api.State(name))
	}
	q.All = q.All || slices.ContainsFunc(q.States, api.State.Over)
	return q
}

// jobRoutes are those of jobs, streams aside.
func (s *Server) jobRoutes() {
	register(s, huma.Operation{
		OperationID: "submit", Method: http.MethodPost, Path: "/v1/jobs", Tags: []string{tagJobs}, DefaultStatus: http.StatusCreated,
		Summary: "Submit a job, or an array of them", Description: "The answer comes when the job cannot be lost any more.",
	}, func(ctx context.Context, c Caller, in *submitInput) (*submitOutput, error) {
		ids, err := s.Backend.Submit(ctx, c, in.Body)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return &submitOutput{Location: "/v1/jobs/" + url.PathEscape(ids[0]), Body: Submitted{ids}}, nil
	})
	register(s, huma.Operation{
		OperationID: "jobs", Method: http.MethodGet, Path: "/v1/jobs", Tags: []string{tagJobs},
		Summary: "List jobs", Description: "By number; those that have not ended unless told otherwise.",
	}, func(ctx context.Context, c Caller, in *listInput) (*struct{ Body JobList }, error) {
		list, err := s.page(ctx, c, in)
		return &struct{ Body JobList }{list}, err
	})
	register(s, huma.Operation{
		OperationID: "job", Method: http.MethodGet, Path: "/v1/jobs/{id}", Tags: []string{tagJobs},
		Summary: "How a job stands",
	}, func(ctx context.Context, c Caller, in *OfJob) (*struct{ Body api.Job }, error) {
		j, err := s.oneJob(ctx, c, in.ID)
		return &struct{ Body api.Job }{j}, err
	})
	register(s, huma.Operation{
		OperationID: "why", Method: http.MethodGet, Path: "/v1/jobs/{id}/why", Tags: []string{tagJobs},
		Summary: "Why a job waits, or what it does",
	}, func(ctx context.Context, c Caller, in *OfJob) (*struct{ Body api.Why }, error) {
		w, err := s.Backend.Why(ctx, c, in.ID)
		return &struct{ Body api.Why }{w}, err
	})
	register(s, huma.Operation{
		OperationID: "forecast", Method: http.MethodGet, Path: "/v1/forecast", Tags: []string{tagJobs},
		Summary: "When waiting jobs start, the first ones first", Description: "The first 200, as far as they can be foretold within three seconds. One forecast is made for all callers, of which each is told her own jobs.",
	}, func(ctx context.Context, c Caller, _ *nothing) (*struct{ Body api.Forecast }, error) {
		f, err := s.Backend.Forecast(ctx, c)
		return &struct{ Body api.Forecast }{f}, err
	})
	s.verbRoutes()
}

// oneJob finds one job; of several with one name, all but one of which have ended, the last.
func (s *Server) oneJob(ctx context.Context, c Caller, id string) (api.Job, error) {
	jobs, err := s.Backend.Jobs(ctx, c, api.Query{IDs: []string{id}, All: true})
	switch {
	case err != nil:
		return api.Job{}, err
	case len(jobs) == 0:
		return api.Job{}, api.Refuse(api.Unknown, "there is no job %s", id)
	case len(jobs) > 1 && jobs[0].ID != id:
		return api.Job{}, api.Refuse(api.Conflict, "%s is an array of %d jobs: ask for one of them, such as %s, or list them with /v1/jobs?id=%s&all=true", id, len(jobs), jobs[0].ID, id)
	}
	return jobs[len(jobs)-1], nil
}

// verbRoutes are those that change a job.
func (s *Server) verbRoutes() {
	verbs := []struct {
		verb    Verb
		summary string
	}{
		{Cancel, "End a job for good"},
		{Hold, "Keep a waiting job from starting"},
		{Release, "Let a job that is held start"},
		{Requeue, "Take a job off its devices and have it wait again"},
	}
	for _, v := range verbs {
		name := string(v.verb)
		register(s, huma.Operation{
			OperationID: name, Method: http.MethodPost, Path: "/v1/jobs/{id}/" + name, Tags: []string{tagJobs},
			Summary: v.summary, Description: "Of an array without an index: all of its jobs.",
		}, func(ctx context.Context, c Caller, in *OfJob) (*nothing, error) {
			return nil, s.Backend.Do(ctx, c, v.verb, in.ID)
		})
	}
	type input struct {
		OfJob
		Body api.Input
	}
	register(s, huma.Operation{
		OperationID: "input", Method: http.MethodPost, Path: "/v1/jobs/{id}/input", Tags: []string{tagJobs},
		Summary: "Type at the terminal of a job", Description: "The answer is in its logs.",
	}, func(ctx context.Context, c Caller, in *input) (*nothing, error) {
		return nil, s.Backend.Input(ctx, c, in.ID, in.Body)
	})
	type resize struct {
		OfJob
		Body api.Resize
	}
	register(s, huma.Operation{
		OperationID: "resize", Method: http.MethodPost, Path: "/v1/jobs/{id}/resize", Tags: []string{tagJobs},
		Summary: "Give a running job another number of GPUs", Description: "The answer comes when that is decided.",
	}, func(ctx context.Context, c Caller, in *resize) (*nothing, error) {
		return nil, s.Backend.Resize(ctx, c, in.ID, in.Body)
	})
}
