package site

import (
	"os"
	"testing"

	"github.com/norn-scheduler/norn/internal/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }
