/* hutch-teams - the responder for teams. */
#include "../responder/responder.h"

int main(int argc, char **argv)
{
	return responder_main(argc, argv, "hutch-teams", teams_routes, teams_routes_count);
}
