module rota/examples/go

go 1.19
